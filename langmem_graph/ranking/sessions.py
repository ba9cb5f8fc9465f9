"""x"""


def rank_sessions(*a):
    raise NotImplementedError
