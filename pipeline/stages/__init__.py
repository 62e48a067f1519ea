"""The steps of the pipeline, in their order.

==========  =========================================  ======================================
stage       works on                                   leaves
==========  =========================================  ======================================
capture     a hook's pointer                           ``TurnCaptured``, ``TurnSkipped``
summarize   a captured turn                            ``TurnSummarized``
append      a session's summarised turns, in order     ``TurnAppended``, ``DocumentChanged``
chunk       a changed document                         ``DocumentChunked``
embed       a collection's chunked documents           ``DocumentEmbedded``
upsert      a collection's embedded documents          ``DocumentIndexed``, ``DocumentRemoved``
==========  =========================================  ======================================

A stage reads the state, does its work outside any transaction, and commits its event with
the next stage's task in one, and only if the state is still as it read it. A stage that
raises is retried or given up by ``pipeline.retry``; so each can be tried again alone.
"""
