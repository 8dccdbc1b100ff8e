"""What ends a program of this package early, told to a person in one sentence each.

options read ── UsageError: the command cannot be used as it is
service found, load made ── CannotGoOn: TrialError (run/crew.py), AdminError (tune/admin.py),
                            ServiceError (tune/served.py)
"""


class UsageError(Exception):
    """The command cannot be used as it is: one sentence."""


class CannotGoOn(Exception):
    """What was asked for could not be done or not to its end: one sentence."""
