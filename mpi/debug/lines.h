// Lines that somebody types, or a pipe brings, while somebody else may ask for something, too.
#pragma once

#include <string>

namespace cairn::mpi::debug {

class Lines {
  public:
    // Neither descriptor is owned. `other`: -1, or what is watched as well.
    Lines(int in, int other) : in_(in), other_(other) {}

    enum class What {
        line,       // in text()
        end,        // of what comes in; what stands there without an end of a line was a line
        interrupt,  // a signal has come meanwhile
        other,      // the other descriptor is readable; it comes first
    };
    [[nodiscard]] What next();
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    [[nodiscard]] bool take();

    int in_, other_;
    std::string text_, read_;
    bool ended_ = false;
};

}  // namespace cairn::mpi::debug
