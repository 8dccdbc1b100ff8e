"""What stops the stack, told in one sentence: what, where, what was expected."""


class StackError(Exception):
    """The stack cannot start or go on. The message is for people and complete by itself."""
