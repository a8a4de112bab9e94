"""The process that `app.worker.isolated` starts; not a command."""

from app.cli.isolated_engine import work

if __name__ == "__main__":
    work()
