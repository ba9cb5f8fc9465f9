"""One reader of times in words: what a text says of days and times of day.

`scan` gives candidates, each with its place in the text and everything that it may
mean. What is made of them is decided by who asks: how well a message's day fits a
question (`fitting`), the one time that a request proposes (`schedule.time_phrases`),
every day that a text may mean (`schedule.worded_days`).
"""
