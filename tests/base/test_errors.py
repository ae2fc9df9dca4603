from riprap.base.errors import known


def test_known_guesses_a_slip():
    assert known(["ticker", "price"], "tikcer") == "ticker, price (did you mean ticker?)"
    assert known([], "x") == "none"
