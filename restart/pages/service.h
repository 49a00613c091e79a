// The tool's side of lazy memory: starts the page server, hands it the processes, and ends the programs when
// it dies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/program_fd.h"
#include "restart/pages/server.h"

namespace cairn::restart::pages {

class Service {
  public:
    // `work`: the descriptors of the images are duplicated here. `lock`: the session's file that says to a
    // capture that pages are still missing.
    [[nodiscard]] static Result<std::unique_ptr<Service>> start(Work work, const std::string& lock);
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;
    // Unless released: the programs don't go on, and nobody needs pages.
    ~Service();

    // Takes the process's userfaultfd, which is its descriptor `there`. `process`: index in the work.
    [[nodiscard]] Result<> provide(std::uint32_t process, pid_t pid, ProgramFd there);
    // A child of the tool has ended, with this status: if it was the server, and pages are still missing, the
    // programs are ended. True: it was.
    bool ended(pid_t child, int status);
    // The programs run: the server outlives the tool.
    void release() {
        released_ = true;
        shared_.going().store(true);
    }
    [[nodiscard]] bool running() const { return server_ > 0; }

  private:
    Service(Work work, Shared shared, Fd lock)
        : work_(std::move(work)), shared_(std::move(shared)), lock_(std::move(lock)) {}

    Work work_;
    Shared shared_;
    Fd lock_;
    std::vector<Fd> images_;
    pid_t server_ = -1, keeper_ = -1;
    bool released_ = false;
};

}  // namespace cairn::restart::pages
