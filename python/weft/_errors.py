"""The exception of everything that a user's input can break."""


class WeftError(ValueError):
    """What is wrong with a scenario, a file or an argument: the place, the problem and the remedy.

    Attributes:
        message: the place and the problem: ``first.toml:4: `k = 5` is not possible``. In a dict and in an override the place is
            the dotted key: ``fabric.k``.
        help: what to do about it, if there is something to say.
    """

    message: str
    help: str | None

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message, help)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return self.message if self.help is None else f"{self.message}\n  help: {self.help}"
