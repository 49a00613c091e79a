// A terminal that a page is drawn on, and keys that are pressed at it (docs/decisions/0041-top.md).
#pragma once

#include <termios.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cli/top/page.h"

namespace cairn::top {

enum class Key { none, quit, help, sort, checkpoint, again, up, down, page_up, page_down, home, end };

class Screen {
  public:
    // Takes the terminal, and gives it back as it was when it goes.
    Screen();
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;
    ~Screen() { leave(); }

    // Whether there is a terminal, on both sides, that knows how to move a cursor.
    [[nodiscard]] static bool possible();

    void enter();  // again, after leave()
    void leave();

    // What the terminal is now.
    static void measure(View& view);
    // Only lines that have changed are written; all of them, if `anew`. False: the terminal has gone.
    [[nodiscard]] bool draw(const std::vector<Line>& lines, bool anew);

    // Of what has been typed. False: the terminal has gone.
    [[nodiscard]] bool read_keys(std::vector<Key>& keys);

  private:
    termios before_{};
    std::vector<std::string> shown_;
    std::string typed_;  // the beginning of a key's sequence
    bool entered_ = false, colours_ = true;
};

}  // namespace cairn::top
