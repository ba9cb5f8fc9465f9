"""Scripted models that answer and judge, and jobs for them."""

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from benchmarks import run as running
from benchmarks.data import LOADERS
from benchmarks.job import Job
from benchmarks.models import Speaker
from benchmarks.readers import ContextReader
from benchmarks.report.write import write_report
from benchmarks.systems.catalogue import chosen
from langmem_graph.testing import HashEmbeddings
from tests.benchmarks import tiny
from tests.support.models import AnswersBySchema

RIGHT = {"reason": "says the same", "correct": True}
PLAIN = ["ours", "bm25", "naive-rag", "full-context"]


class Model(AnswersBySchema):
    """Says `text` where no schema is asked for."""

    def __init__(self, text="yes", **answers):
        super().__init__(**answers)
        self.script = self._say
        object.__setattr__(self, "text", text)

    def _say(self, messages):
        self.asked.append(("text", str(messages[1].content)))
        return self.text


def job(
    tmp_path,
    name,
    model,
    judging,
    systems=PLAIN,
    reader=ContextReader,
    specs=None,
    **more,
):
    data = LOADERS[name](getattr(tiny, name)(tmp_path / "data"))
    specs = specs or chosen(systems, answering=True, has_model=True)
    return Job(
        data,
        specs,
        HashEmbeddings(),
        tmp_path / "out",
        data.by,
        reader=reader(Speaker(model), 500),
        judge=Speaker(judging) if judging else None,
        names=("model", "judge"),
        **more,
    )


def measured(made):
    log = running.run(made)
    return log.rows("asked"), write_report(made, log, 1.0)


class Walker(Model):
    """Looks once into the messages where a question is about somebody, and answers."""

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, *args, **options):
        asked = next(m.text for m in messages if isinstance(m, HumanMessage))
        if isinstance(messages[-1], HumanMessage) and "Beans" in asked:
            look = {
                "name": "search_conversation",
                "args": {"query": "beans"},
                "id": "c1",
            }
            said = AIMessage("", tool_calls=[look])
        else:
            said = AIMessage('{"answer": "yes", "reason": "so it was said"}')
        return ChatResult(generations=[ChatGeneration(message=said)])
