"""Real signals at random moments while the main thread hands work to another: the seconds
it goes on are the only argument. Prints the interrupts, and what went wrong.
"""

import random
import signal
import sys
import threading
import time

from langmem_graph.threads import uninterrupted


def main(seconds: float) -> None:
    """Call until the time is over, and look at the threads then."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    call = uninterrupted(_is_apart)
    chance = random.Random(4)
    interrupts = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 1.5e-4))
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupts += 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupts += 1
    is_apart = call()
    time.sleep(1)  # what was left ends by itself
    threads = len(sys._current_frames())
    print(interrupts > 100, f"threads: {threads}, apart: {is_apart}", flush=True)


def _is_apart() -> bool:
    return threading.current_thread() is not threading.main_thread()


if __name__ == "__main__":
    main(float(sys.argv[1]))
