"""One module per agent: how its records become turns, and how a turn is read again."""
