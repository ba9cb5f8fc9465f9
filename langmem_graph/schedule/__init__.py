"""Times, recurrence, and what may change on a schedule (RealMem).

Texts name times for several purposes. `moments.scan` reads them, and each purpose has
its policy over what that finds:

- `time_phrases`: the one time that a request proposes; nothing where it may be read in
  two ways.
- `worded_days`: every day that a text may mean, to be compared with other days only.
- `named_moments`: every day and time that a quote may mean, to check a value that a
  model gives.
- `model_written_times`: what a model was asked to write, ISO 8601 and RFC 5545, in any
  form.
"""
