"""Small talk and vague turns by rules (English), which spare a model's call.

Whatever else a request is, the planning call says.
"""

import re
from typing import Literal

Intent = Literal["lookup", "act", "vague", "chat"]
LONGEST = 300  # characters of a request that the rules read: its intent is stated early
_CHAT = re.compile(
    r"(?>(?:hi|hello|hey|thanks?|thank you|thx|ok(?:ay)?|great|cool|nice|perfect|wow|bye|goodbye|"
    r"good (?:morning|night|evening)|sure|yes|no|yep|nope|lol|haha+)"
    r"(?:[\s,]+(?:so much|a lot|very much|there|again|then|that's all|you|everyone|all))*"
    r"[\s,.!]*)++"
)
_OPENING = (
    r"(?:great|ok(?:ay)?|good|nice|perfect|cool|all ?right|thanks|thank you|hey|hi|hello|"
    r"(?:good )?morning|(?:good )?evening|well|so|now|and|done|finished|got it|sounds good|awesome|"
    r"excellent|wonderful|hmm+|ugh|oof|yes|yep|sure|(?:that's|it's|all) (?:done|finished|settled)|"
    r"i'm (?:back|done|ready|here)|back again)"
)
_WHEN = r"(?: (?:next|now|today|tonight|tomorrow|first|this (?:week|weekend|morning|evening)))"
_GOES_ON = (
    rf"what(?:'s|s| is| comes)(?: up)? next|what next|what now|now what|what's up{_WHEN}|"
    r"where (?:were|are) we(?: now| at)?|where did (?:we|i) (?:leave off|stop|get to)|"
    rf"what(?:'s| is|'s still| is still) (?:left|open|due|pending|on){_WHEN}?|"
    r"what(?:'s| is| do i have) on (?:my|the) "
    rf"(?:plate|agenda|schedule|calendar|list|to-?do list|plan){_WHEN}?|"
    r"what (?:should|can|shall|do) (?:i|we) (?:do|focus on|work on|tackle|start with)"
    rf"{_WHEN}|what do (?:i|we) have{_WHEN}|"
    r"(?:can|could|shall|should) we (?:go on|continue|carry on|move on)|"
    r"(?:let's |please )?(?:continue|go on|keep going|carry on|get going|move on|proceed|"
    r"pick up where we left off)|(?:the )?next(?: step| steps| one| thing)?(?: please)?|"
    r"(?:any|other) (?:ideas?|suggestions?|thoughts?|plans?|news|updates?)|"
    r"what (?:do|would) you (?:suggest|think|recommend|propose)|what else|"
    r"(?:can you |could you |please )?(?:help me )?(?:plan|organi[sz]e) "
    r"(?:my|the) (?:day|week|weekend|morning|evening)|"
    r"i(?:'m| am| feel)(?: a bit| so| feeling| just| really)? "
    r"(?:overwhelmed|stuck|lost|bored|stressed|unmotivated|behind)|"
    r"i (?:don't|do not) know (?:where to (?:start|begin)|what to do)(?: next)?|"
    rf"where (?:do|should|shall) (?:i|we) (?:start|begin){_WHEN}?"
)
_VAGUE = re.compile(rf"(?:{_OPENING}[\s,.!:;\u2026-]+)*(?:{_GOES_ON})[\s?.!\u2026]*")


def intent_of(request: str) -> Intent | None:
    """`vague` or `chat` where the words are nothing else; None for all others.

    `vague` continues without naming a subject, `chat` asks for nothing.
    """
    words = " ".join(request[:LONGEST].casefold().replace("\u2019", "'").split())
    if _VAGUE.fullmatch(words):
        return "vague"
    return "chat" if _CHAT.fullmatch(words) else None
