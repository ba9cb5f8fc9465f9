"""A model says whether an answer is right, with our own prompts.

A judgement that could not be read is None: it is counted as a failure and the answer as
wrong, never left out.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field

from benchmarks.data.items import Question, Task
from benchmarks.metrics.answers import abstains, answer_bleu1, answer_f1
from benchmarks.models import Said, Speaker, Spent, prompt_text
from benchmarks.readers import Reply
from langmem_graph.retrieval.quoted_context import as_data

RULES = {
    "answer": "The answer must say what the right answer says.",
    "abstain": (
        "This cannot be known from what was said. Only an answer that says so "
        "is correct."
    ),
    "temporal": "The answer must say what the right answer says; one day, week or "
    "month more or "
    "less in a number of these is no fault.",
    "update": "The right answer is what is true now. An answer that also tells what "
    "was true "
    "earlier is correct where it names what is true now as such.",
    "preference": "The right answer describes what a good reply considers. The answer "
    "is correct "
    "where it uses the user's own preferences rightly; it need not cover every point.",
    "act": "The right answer says what must be considered before doing what is asked. "
    "The answer "
    "is correct only where it takes the same conflict, or constraint, from the user's "
    "past into "
    "account.",
}
"""What the judge is told of each kind of question."""


@dataclass(frozen=True)
class Rubric:
    """Prompts for RealMem's two judgements, and what its scores are called by."""

    reply: str
    memory: str
    prefix: str = ""


OURS = Rubric("judge_scale", "judge_memory")
PAPER = Rubric("judge_scale_paper", "judge_memory_paper", "paper_")
"""The criteria and scales of RealMem's figures 5 and 6, in our words."""


class Verdict(BaseModel):
    """Right or wrong."""

    reason: str = Field(max_length=1_000)
    correct: bool


class ScaleVerdict(BaseModel):
    """How memories are used."""

    reason: str = Field(max_length=1_000)
    score: Literal[0, 1, 2, 3]


class MemoryVerdict(BaseModel):
    """What was found."""

    found: list[int] = Field(
        max_length=100, description="Numbers of the memories that were found."
    )
    helpful: Literal[0, 1, 2]


@dataclass
class Judgement:
    """Scores of one answer, as fractions; `score` is the one that tables lead with.

    `scores` lacks nothing: what could not be judged is 0 there and counted in
    `failures`.
    """

    scores: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    reason: str = ""

    def add(self, said: Said) -> Any:
        """The verdict; what it cost is added, and that it failed."""
        self.spent = self.spent.plus(said.spent)
        if said.content is None:
            self.failures.append(f"judge: {'; '.join(said.problems)[:500]}")
        return said.content


def judge(
    task: Task,
    question: Question,
    reply: Reply,
    judging: Speaker | None,
    *,
    paper: bool = False,
) -> Judgement:
    """Score an answer. Choices and tool calls need no judge; calls are scored over all
    tasks.

    Args:
        task: how answers of the data set are scored.
        question: with the right answer.
        reply: the answer.
        judging: None leaves out what needs a judge.
        paper: judge on a scale by the criteria of RealMem's paper, too.
    """
    done = Judgement()
    if reply.failed:
        done.failures.append(f"answer: {'; '.join(reply.problems)[:500]}")
    if task == "choice":
        done.scores["score"] = float(reply.choice == question.answer)
    elif task == "scale":
        _scale(done, question, reply, judging)
        if paper:
            _scale(done, question, reply, judging, PAPER)
    elif task == "judged":
        _judged(done, question, reply, judging)
    return done


def _judged(
    done: Judgement, question: Question, reply: Reply, judging: Speaker | None
) -> None:
    if question.rule == "abstain":
        done.scores["f1"] = float(abstains(reply.text))
    elif question.answer and question.rule in ("answer", "temporal", "update"):
        # no answer is wrong, even where the right one has no word
        said = not reply.failed
        done.scores["f1"] = said * answer_f1(reply.text, question.answer)
        done.scores["bleu1"] = said * answer_bleu1(reply.text, question.answer)
    if judging is None:
        return
    done.scores["score"] = 0.0
    if reply.failed:
        return
    right = as_data(question.answer) if question.answer else "(none)"
    asked = "\n".join(
        [
            f"Rule: {RULES[question.rule]}",
            f"Question: {as_data(question.text)}",
            f"Right answer: {right}",
            f"Answer: {as_data(reply.text)}",
        ]
    )
    verdict = done.add(judging.ask(Verdict, prompt_text("judge"), asked))
    if verdict is not None:
        done.scores["score"], done.reason = float(verdict.correct), verdict.reason


def _scale(
    done: Judgement,
    question: Question,
    reply: Reply,
    judging: Speaker | None,
    rubric: Rubric = OURS,
) -> None:
    """RealMem's three: QA 0 to 3, recall of memories counted here from a list,
    helpfulness.
    """
    if judging is None:
        return
    scores = dict.fromkeys(("qa_0_to_3", "score"), 0.0)
    memories = [f"{n}: {as_data(text)}" for n, text in enumerate(question.memories, 1)]
    said = f"The user's message: {as_data(question.text)}"
    if not reply.failed:
        asked = [said, "Memories that matter:", *(memories or ["(none)"])]
        asked += [
            f"Reference: {as_data(question.answer)}",
            f"Reply: {as_data(reply.text)}",
        ]
        verdict = done.add(
            judging.ask(ScaleVerdict, prompt_text(rubric.reply), "\n".join(asked))
        )
        if verdict is not None:
            scores = {"score": verdict.score / 3, "qa_0_to_3": float(verdict.score)}
            done.reason = done.reason or verdict.reason
    if memories:
        shown = [said, "Memories:", *memories]
        scores |= _found_memories(done, question, reply, judging, shown, rubric)
    done.scores |= {f"{rubric.prefix}{name}": value for name, value in scores.items()}


def _found_memories(
    done: Judgement,
    question: Question,
    reply: Reply,
    judging: Speaker,
    asked: list[str],
    rubric: Rubric,
) -> dict[str, float]:
    found = [f"- {as_data(text)}" for text in reply.shown[1:]]
    lines = [*asked, "Found:", *(found or ["(nothing)"])]
    verdict = done.add(
        judging.ask(MemoryVerdict, prompt_text(rubric.memory), "\n".join(lines))
    )
    wanted = range(1, len(question.memories) + 1)
    hits = len(set(verdict.found) & set(wanted)) if verdict is not None else 0
    return {
        "memory_recall": hits / len(question.memories),
        "memory_helpful": verdict.helpful / 2 if verdict is not None else 0.0,
    }
