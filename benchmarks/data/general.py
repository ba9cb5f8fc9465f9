"""Questions that need nobody's memory, asked of a reader that may decide not to look.

Asked beside a data set's own with `--reader navigate`, so that needless calls are seen
(NapMem, Table 5). Written for this project.
"""

from dataclasses import replace

from benchmarks.data.items import DataSet, Question

CATEGORY = "needs no memory"
_ASKED = {
    "What is 17 times 6?": "102",
    "How many minutes are in two and a half hours?": "150",
    "What is the capital of Portugal?": "Lisbon",
    "Which planet is closest to the sun?": "Mercury",
    "What is the chemical symbol of iron?": "Fe",
    "At how many degrees Celsius does water boil at sea level?": "100",
    "What is the plural of the English word 'goose'?": "geese",
    "In which continent is Kenya?": "Africa",
    "How many sides has a hexagon?": "six",
    "What colour do blue and yellow paint make together?": "green",
    "What does the prefix 'kilo' stand for?": "a thousand",
    "Which month comes after August?": "September",
    "What is half of 250?": "125",
    "Which language is mainly spoken in Brazil?": "Portuguese",
    "How many legs has a spider?": "eight",
    "What gas do plants take up to grow?": "carbon dioxide",
    "Translate the Spanish word 'gracias' into English.": "thank you",
    "Which is longer, a mile or a kilometre?": "a mile",
    "What is the square root of 81?": "9",
    "Who wrote the play 'Hamlet'?": "William Shakespeare",
}


def with_general(data: DataSet, most: int | None = None) -> DataSet:
    """The data set with these questions, at most so many, after its first
    conversation.
    """
    if data.task != "judged" or not data.conversations:
        return data
    asked = [
        Question(id=f"general-{n}", text=text, category=CATEGORY, answer=answer)
        for n, (text, answer) in enumerate(list(_ASKED.items())[:most], 1)
    ]
    first, *rest = data.conversations
    return replace(
        data,
        conversations=[replace(first, questions=[*first.questions, *asked]), *rest],
    )
