"""The weights of the linear scores: round numbers, because fitted ones are hardly better.

`python -m benchmarks.fit_ranking` fits them and shows, on conversations held out, what the fit and
what these round numbers reach. They were rounded from fits on five open LoCoMo conversations
(messages; CC BY-NC 4.0) and five open RealMem people (sessions; Apache-2.0): docs/ranking.md.
"""

MESSAGE_WEIGHTS = {
    "dense": 1.0,  # cosine of the best piece
    "words": 1.0,  # BM25, as a share of the query's best
    "records": 0.25,  # score of the best record that cites it
    "session": 1.0,  # mean of the session's three best cosines
    "date": 1.0,  # how well the message's day fits a date named in the query
    "length": 0.2,  # log of the characters: one-word answers are rarely what is looked for
    "question": -0.2,  # a question rarely holds the answer
}
RECORD_WEIGHTS = {"dense": 1.0, "words": 1.0, "date": 1.0}
SESSION_WEIGHTS = {
    "dense": 1.0,  # mean of the session's three best cosines
    "words": 0.25,  # mean of its eight best BM25 scores, as a share of the best session's
    "records": 0.5,  # mean of its messages' three best, as a share of the best session's
    "profile": 1.0,  # likeness to the best sessions of a first pass
    "age": -0.15,  # log of how many sessions ago it began; see Settings.session_age_weight
}
