"""The made-up chat: the same every time, and as skewed as chat is."""

from collections import Counter

import numpy as np

from benchmarks import chatter
from benchmarks.chatter import CheapEmbeddings


def texts(count=2_000):
    talks = list(chatter.sessions(chatter.make_chat(), count))
    return [message["content"] for talk in talks for message in talk]


def test_the_same_every_time():
    assert texts(100) == texts(100)
    assert len(texts(110)) == 110


def test_common_words_are_common():
    words = Counter(word for text in texts() for word in text.split())
    total = sum(words.values())
    assert 20 < total / 2_000 < 30
    assert 0.4 < sum(count for _, count in words.most_common(200)) / total < 0.8
    assert len(words) > 5_000


def test_messages_of_one_topic_are_close():
    chat = chatter.make_chat()
    embeddings = CheapEmbeddings(chat)
    talks = list(chatter.sessions(chat, 200))
    vectors = np.array(
        [embeddings.embed_documents([m["content"] for m in t]) for t in talks]
    )
    likeness = np.einsum("aid,bjd->ab", vectors, vectors) / vectors.shape[1] ** 2
    own, others = np.diag(likeness), likeness[~np.eye(len(talks), dtype=bool)]
    assert own.min() > others.mean() + 0.05
