"""The intent of a request by rules (English); the goal loop decides where the rules do not.

The intent chooses the path of a recall: small talk and vague turns need no search by reasoning, and
only an act is examined for risks.
"""

import re
from typing import Literal

Intent = Literal["lookup", "act", "vague", "chat"]
LONGEST = 300
"""Characters of a request that the rules read: its intent is stated early."""
_POLITE = (
    r"(?:please|pls|kindly|hey|hi|ok(?:ay)?|so|then|now|also|and|(?:can|could|would|will) you|"
    r"i(?:'d| would) like you to|i (?:want|need) you to|help me(?: to)?|"
    r"go ahead and|let(?:'s|s| us)|i'd love (?:you )?to)"
)
_DEEDS = (
    r"(?:book|buy|order|reserve|schedule|reschedule|plan|organi[sz]e|recommend|suggest|find|get|"
    r"grab|make|cook|bake|prepare|sign|enrol+|register|remind me to|cancel|move|invite|pack|set|"
    r"arrange|send|call|pay|hire|rent|pick|choose|draft|design|create|add|put|compare|look for|"
    r"give me (?:a|an|some|ideas|your)|write|start|switch|install|fix|paint|build|take|apply|"
    r"sell|swap|replace|renew|top up|pre-?order|adopt|plant|light|mix|brew|roast|grill)"
)
_IMPERATIVE = re.compile(rf"(?:^|[.!?;,:]\s)(?>{_POLITE},?\s)*+{_DEEDS}\b")
_INTENDS = re.compile(
    r"\b(?:i|we)(?: really| also| just)? (?:want|need|plan|intend|hope|wish|wanna|mean)\b"
    r"|\b(?:i|we)(?:'d| would)(?: really| also)? (?:like|love|prefer)\b"
    r"|\b(?:i|we)(?:'m|'re| am| are)(?: just| now)? "
    r"(?:going to|gonna|planning|thinking (?:of|about)|about to|looking (?:for|to)|considering|"
    r"signing|booking|buying|having|making|cooking|taking|getting|tempted)"
    r"|\b(?:i|we)(?:'ll| will)\b|\bhelp me\b|\blet(?:'s|s| us)\b"
)
_MAY = re.compile(
    r"\b(?:can|could|should|shall|may|might) (?:i|we)\b"
    r"|\b(?:is|would) it(?: be)? (?:ok|okay|fine|safe|wise|smart|a good idea|all right) (?:to|if)\b"
    r"|\bwhat about (?:a|an|some|the)\b|\bhow about\b"
    r"|\b(?:which|what|where)\b.{0,80}\b(?:should|can|could|would) (?:i|we|you)\b"
    r"|\bhow (?:do|can|should) (?:i|we) (?:best )?\w+"
)
_PAST = re.compile(
    r"\b(?:did|was|were|had|have|has|hasn't|haven't|didn't)\s+(?:i|we|my|our|he|she|they|it|the)\b"
    r"|\b(?:i|we|my|our|he|she|they)\s+(?:\w+\s+)?(?:did|was|were|had|said|told|bought|booked|paid|"
    r"ordered|went|mentioned|asked|used)\b"
    r"|\bused to\b|\blast (?:time|week|month|year)\b|\bagain\?"
)
_ASKS = re.compile(
    r"^\W*+(?>(?:and|so|hey|ok|remind me|tell me|do you (?:remember|know)|can you (?:tell|remind) "
    r"me|could you (?:tell|remind) me|any idea)\b\W*+)*"
    r"(?:what|what's|whats|when|when's|who|who's|whos|whom|whose|which|where|where's|why|how|did|"
    r"do|does|is|are|was|were|has|have|had|am)\b"
)
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
    """The intent that the words express; None where the rules do not decide.

    `vague` continues without naming a subject, `chat` asks for nothing, `act` wants something done,
    and `lookup` is a plain question.
    """
    words = " ".join(request[:LONGEST].casefold().replace("\u2019", "'").split())
    if _VAGUE.fullmatch(words):
        return "vague"
    if _CHAT.fullmatch(words):
        return "chat"
    if _MAY.search(words) and not _PAST.search(words):
        return "act"
    if _ASKS.match(words):
        return "lookup"
    if _IMPERATIVE.search(words) or (_INTENDS.search(words) and not _PAST.search(words)):
        return "act"
    return None
