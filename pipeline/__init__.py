"""From a hook's pointer to an indexed journal entry: the event log, the queue, the stages."""
