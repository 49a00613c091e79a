// Asks cairn-capture for a look at living processes (docs/capture-protocol.md): it alone stops programs.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/python/frames.h"
#include "common/session.h"
#include "common/wire/events.h"
#include "common/wire/glance.h"

namespace cairn::stacks {

struct Wanted {
    KernelId real{};
    python::Interpreter python{};  // without a `runtime`: none
};

class Capture {
  public:
    // `regions`: of other users.
    [[nodiscard]] static Result<Capture> start(const Session& session,
                                               const std::map<uid_t, std::string>& regions,
                                               const std::vector<Wanted>& members);
    Capture(Capture&& other) noexcept;
    Capture& operator=(Capture&&) = delete;
    // Waits for its end: who stood still goes on then at the latest.
    ~Capture();

    // Of the next member, in their order.
    [[nodiscard]] Result<wire::Glance> next();

  private:
    Capture(pid_t pid, Fd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
    [[nodiscard]] bool read_all(void* to, std::size_t size) const;

    pid_t pid_ = 0;
    Fd pipe_;
};

}  // namespace cairn::stacks
