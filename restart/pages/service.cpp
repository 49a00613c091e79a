#include "restart/pages/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cairn::restart::pages {

Result<std::unique_ptr<Service>> Service::start(Work work, const std::string& lock) {
    Fd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) return fail_errno("{}", lock);
    // Shared: several parts can come back at once. A capture holds it for a moment only.
    if (::flock(fd.get(), LOCK_SH) != 0) return fail_errno("{}", lock);
    auto shared = TRY(Shared::create(work.processes.size()));
    std::unique_ptr<Service> service(new Service(std::move(work), std::move(shared), std::move(fd)));
    // The tool closes its own when the programs go; the table of descriptors is the server's as well.
    for (auto& process : service->work_.processes)
        for (auto& image : process.images) {
            service->images_.emplace_back(::fcntl(image.fd, F_DUPFD_CLOEXEC, 3));
            if (!service->images_.back()) return fail_errno("descriptors for {}", image.path);
            image.fd = service->images_.back().get();
        }
    service->work_.tool = ::getpid();
    service->work_.lock = service->lock_.get();
    service->server_ = fork_with_descriptors();
    if (service->server_ == 0) serve(service->work_, service->shared_);
    if (service->server_ < 0) return fail_errno("starting the page server");
    service->keeper_ = fork_with_descriptors();
    if (service->keeper_ == 0) keep(service->work_, service->shared_, service->server_);
    if (service->keeper_ < 0) return fail_errno("starting the page server's keeper");
    return service;
}

Service::~Service() {
    if (released_) return;
    for (const pid_t helper : {keeper_, server_}) {
        if (helper <= 0) continue;
        ::kill(helper, SIGKILL);
        ::waitpid(helper, nullptr, 0);
    }
    for (std::size_t i = 0; i < work_.processes.size(); ++i)
        if (const int fd = shared_.user_fault(i).load(); fd >= 0) ::close(fd);
}

Result<> Service::provide(std::uint32_t process, pid_t pid, ProgramFd there) {
    Fd target(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!target) return fail_errno("process {}", pid);
    const int fd = static_cast<int>(::syscall(SYS_pidfd_getfd, target.get(), there.number(), 0));
    if (fd < 0) return fail_errno("userfaultfd of process {}", pid);
    shared_.add_process(target.release());
    shared_.user_fault(process).store(fd);
    return {};
}

bool Service::ended(pid_t child, int status) {
    if (child == keeper_) keeper_ = -1;
    if (child != server_) return false;
    server_ = -1;
    if (!shared_.finished().load())
        end_programs(work_, shared_, fmt::format("the page server has died (status {:#x})", status));
    images_.clear();
    lock_.reset();
    return true;
}

}  // namespace cairn::restart::pages
