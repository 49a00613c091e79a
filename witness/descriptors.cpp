#include "witness/descriptors.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

// <linux/fcntl.h>, which can't be included beside <fcntl.h>.
constexpr int f_get_rw_hint = 1024 + 11, f_get_file_rw_hint = 1024 + 13;

struct OwnerOf {
    int type = 0;
    pid_t id = 0;
};

// `which`: "" or of_one_who_has_gone, behind the name of what tells one mounted proc from another.
void see_fdinfo(Facts& facts, const std::string& prefix, const std::string& path, const std::string& which) {
    std::istringstream lines(text_of(path).value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        std::string key = line.substr(0, colon), value = line.substr(colon + 1);
        // Lines of which there may be several: one for each watch of an epoll, an inotify or a fanotify, and
        // for each lock.
        if (key == "tfd" || key == "lock" || key.starts_with("inotify") || key.starts_with("fanotify")) {
            std::istringstream words(value);
            std::string first;
            words >> first;
            std::string base = fmt::format("{}/fdinfo/{} {}", prefix, key, first);
            while (facts.all().contains(base)) base += "'";
            facts.put(base, value);
            continue;
        }
        if (key == "flags")
            value = (std::strtoul(value.c_str(), nullptr, 8) & O_CLOEXEC) != 0 ? "close on exec"
                                                                               : "";  // the rest fcntl tells
        value.erase(0, std::min(value.find_first_not_of(" \t"), value.size()));
        facts.put(fmt::format("{}/fdinfo/{}{}", prefix, key, key == "mnt_id" ? which : ""), value);
    }
}

void see_number(Facts& facts, const std::string& name, int result) {
    if (result >= 0)
        facts.put(name, result);
    else if (errno != ENOTTY && errno != EINVAL && errno != EBADF)
        facts.put_errno(name, errno);
}

bool is_netlink(const Fd& file) {
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(file.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK;
}

// The root folder of proc(5) has as many links as there are processes.
bool counts_processes(const Fd& file, const struct stat& status) {
    struct statfs system {};
    return S_ISDIR(status.st_mode) && status.st_ino == 1 && fstatfs(file.get(), &system) == 0 &&
           system.f_type == PROC_SUPER_MAGIC;
}

void see_file(Facts& facts, const std::string& prefix, const Fd& file, const std::string& which) {
    struct stat status {};
    if (fstat(file.get(), &status) == 0) {
        facts.put(prefix + "/fstat/mode", fmt::format("{:o}", status.st_mode));
        facts.put(fmt::format("{}/fstat/owner{}", prefix, which),
                  fmt::format("{}:{}", status.st_uid, status.st_gid));
        if (!counts_processes(file, status))
            facts.put(prefix + "/fstat/links", fmt::format("{}", status.st_nlink));
        facts.put(fmt::format("{}/fstat/device{}", prefix, which),
                  fmt::format("{:x} {:x}", status.st_dev, status.st_rdev));
        facts.put(prefix + "/fstat/size", fmt::format("{}", status.st_size));
        facts.put(prefix + "/fstat/inode", fmt::format("{}", status.st_ino));
    }
    const int flags = fcntl(file.get(), F_GETFL);
    // O_LARGEFILE as the kernel has it, which is 0 in <fcntl.h>. Of O_CLOEXEC the descriptor's own is in
    // fdinfo: among the description's flags it is what mq_open(3) was called with.
    constexpr int said_once = 0100000 | O_NOFOLLOW | O_CLOEXEC;
    facts.put(prefix + "/fcntl/flags", fmt::format("{:o}", flags & ~said_once));
    facts.put(prefix + "/fcntl/flags of the opening", fmt::format("{:o}", flags & said_once));
    see_number(facts, prefix + "/fcntl/signal", fcntl(file.get(), F_GETSIG));
    see_number(facts, prefix + "/fcntl/lease", fcntl(file.get(), F_GETLEASE));
    see_number(facts, prefix + "/fcntl/seals", fcntl(file.get(), F_GET_SEALS));
    see_number(facts, prefix + "/fcntl/pipe size", fcntl(file.get(), F_GETPIPE_SZ));
    OwnerOf owner;
    if (fcntl(file.get(), F_GETOWN_EX, &owner) == 0)
        facts.put(prefix + "/fcntl/owner", fmt::format("{} {}", owner.type, owner.id));
    for (const auto& [what, name] :
         {std::pair(f_get_rw_hint, "hint"), std::pair(f_get_file_rw_hint, "file's hint")}) {
        std::uint64_t hint = 0;
        if (fcntl(file.get(), what, &hint) == 0)
            facts.put(fmt::format("{}/fcntl/{}", prefix, name), static_cast<std::int64_t>(hint));
    }
    // What poll(2) says at once.
    pollfd asked{file.get(), POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    if (!S_ISDIR(status.st_mode) && poll(&asked, 1, 0) >= 0)
        facts.put(prefix + (is_netlink(file) ? "/poll of netlink" : "/poll"),
                  fmt::format("{:#x}", asked.revents));
    if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
        int waiting = 0;
        if (ioctl(file.get(), FIONREAD, &waiting) == 0) facts.put(prefix + "/ioctl/FIONREAD", waiting);
    }
}

// ioctl_tty(2): what can be asked without changing it.
void see_terminal(Facts& facts, const std::string& prefix, const Fd& terminal) {
    std::array<unsigned char, 64> settings{};
    constexpr unsigned long tcgets2 =
        0x802c542a;  // TCGETS2: its struct termios2 can't be had beside <termios.h>
    if (ioctl(terminal.get(), tcgets2, settings.data()) != 0) return;
    facts.put_bytes(prefix + "/tty/TCGETS2", std::span(settings).first(44));
    winsize size{};
    if (ioctl(terminal.get(), TIOCGWINSZ, &size) == 0)
        facts.put(prefix + "/tty/window",
                  fmt::format("{} {} {} {}", size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel));
    for (const auto& [request, name] : {std::pair<unsigned long, const char*>(TIOCGPGRP, "foreground"),
                                        {TIOCGSID, "session"},
                                        {TIOCGETD, "discipline"},
                                        {TIOCGEXCL, "exclusive"},
                                        {TIOCGPTLCK, "locked"},
                                        {TIOCGPKT, "packet mode"},
                                        {TIOCGPTN, "number"},
                                        {TIOCOUTQ, "out queue"},
                                        {TIOCGSOFTCAR, "soft carrier"},
                                        {TIOCGDEV, "device"}}) {
        int value = 0;
        if (ioctl(terminal.get(), request, &value) == 0)
            facts.put(fmt::format("{}/tty/{}", prefix, name), value);
    }
}

// What waits in a pipe: tee(2) doesn't take it away.
void see_pipe(Facts& facts, const std::string& prefix, const Fd& pipe) {
    std::array<int, 2> own{};
    const int size = fcntl(pipe.get(), F_GETPIPE_SZ);
    if (size < 0 || pipe2(own.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    const Fd out(own[0]), in(own[1]);
    fcntl(in.get(), F_SETPIPE_SZ, size);
    const ssize_t count = tee(pipe.get(), in.get(), static_cast<std::size_t>(size), SPLICE_F_NONBLOCK);
    if (count <= 0) return;
    std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t got = read(out.get(), bytes.data() + done, bytes.size() - done);
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    facts.put_bytes(prefix + "/in the pipe", std::span(bytes).first(done));
}

}  // namespace

std::vector<int> see_descriptors(Facts& facts, pid_t pid) {
    const std::string folder = fmt::format("/proc/{}", pid);
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    std::vector<int> numbers = numbers_in(folder + "/fd");
    for (const int number : numbers) {
        const std::string prefix = fmt::format("{}/fd/{}", pid, number),
                          shown = fmt::format("{}/fd/{}", folder, number);
        const auto link_text = link_of(shown);
        const bool has_gone = link_text && is_of_one_who_has_gone(folder, *link_text);
        const std::string which = has_gone ? " of one who has gone" : "";
        if (link_text)
            facts.put(prefix + (has_gone ? "/leads to one who has gone" : "/leads to"), *link_text);
        struct stat link {};
        if (lstat(shown.c_str(), &link) == 0)
            facts.put(prefix + "/access", fmt::format("{:o}", link.st_mode & 0777U));
        see_fdinfo(facts, prefix, fmt::format("{}/fdinfo/{}", folder, number), which);
        const Fd own(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
        if (!own) continue;
        see_file(facts, prefix, own, which);
        const int flags = fcntl(own.get(), F_GETFL);
        if ((flags & O_PATH) != 0) continue;
        see_terminal(facts, prefix, own);
        struct stat status {};
        if (fstat(own.get(), &status) != 0) continue;
        if (S_ISSOCK(status.st_mode)) see_socket(facts, prefix, own);
        if (S_ISFIFO(status.st_mode) && (flags & O_ACCMODE) != O_WRONLY) see_pipe(facts, prefix, own);
    }
    return numbers;
}

}  // namespace cairn::witness
