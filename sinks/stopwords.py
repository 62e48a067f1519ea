"""Words that carry no meaning for a search, in English and Chinese: our own short lists.

Short on purpose. A word that is missing costs a little noise, a word too many cannot be found
any more: so "may" (the month), "not" in no list of errors, "above" and "before" stay words.
"""

from __future__ import annotations

#: English function words, lower case, contractions without their apostrophe; but for "I'd", since
#: an "ID" is a thing in notes about code.
ENGLISH = frozenset(
    """
    a an the this that these those
    i me my mine we us our ours you your yours he him his she her hers it its they them their
    theirs myself itself ourselves themselves
    am is are was were be been being do does did doing done have has had having
    can could will would shall should must might
    what which who whom whose where when why how
    and or but nor so if then than as because while although though
    of in on at by for with about to from into onto over under up down out off through between
    during within without
    there here some any all each both such same very just also too only again ever even
    not no yes
    let lets
    im ive youre youve weve theyre theyve hes shes thats whats wheres whos hows theres heres
    isnt arent wasnt werent dont doesnt didnt havent hasnt hadnt cant couldnt wont wouldnt
    shouldnt mustnt
    please
    """.split()
)

#: Chinese function words and question words; a run of Han characters is parted at them. Of the
#: single characters only those that hardly ever are part of a longer word.
CHINESE = frozenset(
    """
    我们 你们 他们 她们 它们 咱们 大家 自己 我 你 您 他 她 它
    这个 那个 这些 那些 这里 那里 这样 那样 这么 那么 这 那
    什么 怎么 怎样 怎么样 为什么 如何 哪个 哪些 哪里 哪儿 几个 多少 是否 有没有 是不是
    能不能 可不可以 会不会 要不要 什么时候 的时候
    的 了 吗 呢 吧 啊 呀 嘛 哦
    是 在 和 与 以及 或 或者 并且 而且 但是 因为 所以 因此 如果 虽然 然后 还是
    就是 都是 也是 只是 可是 于是 把 被 很 也 都 就 非常
    关于 对于 按照 根据 没有 可以 能够 应该 需要 已经 曾经 正在 一下 一个 一些 一直
    请问 帮我 告诉我
    """.split()
)

#: Words that hold one of the single characters above and mean something of their own: the run
#: is not parted inside them.
CHINESE_KEPT = frozenset(
    """
    目的 的确 标的 了解 了结 存在 在线 现在 内在 潜在 所在 在于 参与 和谐 总和 共和 或许
    把握 被动 成就 就绪 首都 都市 其他 吉他
    """.split()
)
