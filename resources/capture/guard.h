// What has to come to its end once it is begun, also when the capture is killed in the middle: something that
// can be looked at only by taking it, and is put back then.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::capture {

// A process of its own that does this. Whoever ends the capture, by its pid or its process group, doesn't end
// this one.
class Guard {
  public:
    // `work` writes what it has to tell to the descriptor that it is given, when all is put back; it returns
    // whether it could. It runs in a copy of this process, which is gone then without a destructor.
    [[nodiscard]] static Result<Guard> begin(const char* name, const std::function<bool(int to)>& work);
    Guard(Guard&& other) noexcept : pid_(std::exchange(other.pid_, 0)), answer_(std::move(other.answer_)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() { end(); }

    // What it tells can be read here, up to the end of file.
    [[nodiscard]] int answer() const { return answer_.get(); }
    // Waits for it. False: it was ended, or couldn't tell.
    bool end();

  private:
    Guard(pid_t pid, Fd answer) : pid_(pid), answer_(std::move(answer)) {}
    pid_t pid_;
    Fd answer_;
};

}  // namespace cairn::capture
