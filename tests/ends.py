"""Processes that belong together, such as a server and its client."""


class Ends:
    """By name, in the order in which they are told of; ended together at the end of a `with`."""

    def __init__(self):
        self.ends = {}

    def explain(self):
        texts = []
        for name, end in self.ends.items():
            texts.append(f"{name}: {' '.join(end.command)}: exit {end.process.poll()}")
            texts += [f"{name}| {line}" for line in end.text().splitlines()[-12:]]
        return "\n".join(texts)

    def end(self):
        for end in self.ends.values():
            end.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
