"""Test that tables of what-if questions name the unit of a step (tokens or images) and the global batch."""

from assistant.pages.training.what_if_page import scaling_page
from recipes.planning.what_if import scaling_curve
from tests.support.tui_text import words
from tests.support.what_if import timed_answer


def page_of(*answers):
    return "\n".join(
        words(section) for section in scaling_page(scaling_curve((each.nodes, each) for each in answers))
    )


def test_images_are_not_called_tokens():
    assert "images/s" in page_of(timed_answer(8, 1000.0, items="images"))
    assert "tokens/s" in page_of(timed_answer(8, 1000.0))


def test_a_global_batch_that_grows_with_the_nodes_is_stated():
    same, grown = timed_answer(8, 1000.0), timed_answer(16, 2000.0, global_batch=1024)
    assert "the global batch grows from 512 to 1024" in page_of(same, grown)
    assert "the global batch grows" not in page_of(same, timed_answer(16, 2000.0))
