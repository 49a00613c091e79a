#include "restart/pages/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "restart/tell.h"

namespace cairn::restart::pages {

Result<std::unique_ptr<Service>> Service::start(Work work, const std::string& lock) {
    Fd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) return fail_errno("{}", lock);
    // Shared: several parts can come back at once. A capture holds it for a moment only.
    if (::flock(fd.get(), LOCK_SH) != 0) return fail_errno("{}", lock);
    auto log = TRY(Log::create(static_cast<std::uint32_t>(work.processes.size())));
    std::unique_ptr<Service> service(new Service(std::move(work), std::move(log), std::move(fd)));
    // The tool closes its own when the programs go; the table of descriptors is the server's as well.
    for (auto& process : service->work_.processes) {
        service->images_.emplace_back(::fcntl(process.image_fd, F_DUPFD_CLOEXEC, 3));
        if (!service->images_.back()) return fail_errno("descriptor for {}", process.image);
        process.image_fd = service->images_.back().get();
    }
    service->work_.lock = service->lock_.get();
    service->log_.guard().store(own_identity());
    CHECK_OK(service->spawn());
    service->keeper_ = fork_with_descriptors();
    if (service->keeper_ == 0) keep(service->work_, service->log_);
    if (service->keeper_ < 0) return fail_errno("starting the page server's keeper");
    return service;
}

Service::~Service() {
    if (server_ > 0 && !released_) {
        if (keeper_ > 0) {
            ::kill(keeper_, SIGKILL);
            ::waitpid(keeper_, nullptr, 0);
        }
        ::kill(server_, SIGKILL);
        ::waitpid(server_, nullptr, 0);
        for (std::uint32_t i = 0; i < log_.processes(); ++i)
            if (const int fd = log_.descriptor(i).load(); fd >= 0) ::close(fd);
    }
}

Result<> Service::spawn() {
    server_ = fork_with_descriptors();
    if (server_ == 0) serve(work_, log_);
    if (server_ < 0) return fail_errno("starting the page server");
    return {};
}

Result<> Service::provide(std::uint32_t process, pid_t pid, int there) {
    const Fd target(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!target) return fail_errno("process {}", pid);
    const int fd = static_cast<int>(::syscall(SYS_pidfd_getfd, target.get(), there, 0));
    if (fd < 0) return fail_errno("userfaultfd of process {}", pid);
    log_.descriptor(process).store(fd);
    return {};
}

bool Service::ended(pid_t child, int status) {
    if (child != server_) return false;
    server_ = -1;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || log_.failed().load())) {
        images_.clear();
        lock_.reset();
        return true;
    }
    tell("cairn restart: the page server has died (status {:#x}), another one goes on\n", status);
    while (!spawn()) ::usleep(10'000);
    return true;
}

}  // namespace cairn::restart::pages
