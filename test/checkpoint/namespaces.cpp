// Descriptors of namespaces: of each type that the process is in and of those for its children, held twice
// and by a child, sent and not received; the process goes back to them by setns(2).
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <string>

#include "support.h"

namespace {

int open_namespace(const std::string& name, int flags = 0) {
    return open(("/proc/self/ns/" + name).c_str(), O_RDONLY | flags);
}

// Is it the namespace that this process is in?
bool is_own(int fd, const std::string& name, int type) {
    struct stat held = {}, own = {};
    CHECK(fstat(fd, &held) == 0 && stat(("/proc/self/ns/" + name).c_str(), &own) == 0);
    return held.st_dev == own.st_dev && held.st_ino == own.st_ino && ioctl(fd, NS_GET_NSTYPE) == type;
}

template <int type>
test::Check own(const char* name) {
    const int fd = open_namespace(name, O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return [](bool) {};  // a kernel without this type
    CHECK(fd >= 0);
    return [=](bool) {
        CHECK(is_own(fd, name, type));
        CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == 0);
    };
}

// setns(2) to where one is: the kernel lets nobody do it who has no privilege.
test::Check gone_back_to() {
    const int host_name = open_namespace("uts"), network = open_namespace("net");
    CHECK(host_name >= 0 && network >= 0);
    return [=](bool) {
        CHECK(setns(host_name, CLONE_NEWUTS) == 0 || errno == EPERM);
        CHECK(setns(network, CLONE_NEWNET) == 0 || errno == EPERM);
        CHECK(setns(network, CLONE_NEWUTS) == -1 && (errno == EINVAL || errno == EPERM));
    };
}

// The description is one: a flag that is set by one descriptor is seen by the others.
test::Check held_twice_and_by_a_child() {
    const int first = open_namespace("ipc", O_NONBLOCK), second = dup(first), another = open_namespace("ipc");
    int to_child[2], from_child[2];
    CHECK(first >= 0 && second >= 0 && another >= 0 && pipe(to_child) == 0 && pipe(from_child) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (char byte; read(to_child[0], &byte, 1) == 1;) {
            byte = static_cast<char>(is_own(first, "ipc", CLONE_NEWIPC) +
                                     2 * ((fcntl(first, F_GETFL) & O_NONBLOCK) != 0));
            CHECK(write(from_child[1], &byte, 1) == 1);
        }
        _exit(0);
    }
    const auto seen_by_child = [=] {
        char byte = 0;
        CHECK(write(to_child[1], "?", 1) == 1 && read(from_child[0], &byte, 1) == 1);
        return int{byte};
    };
    return [=](bool last) {
        CHECK(is_own(second, "ipc", CLONE_NEWIPC) && (fcntl(second, F_GETFL) & O_NONBLOCK) != 0);
        CHECK((fcntl(another, F_GETFL) & O_NONBLOCK) == 0 && seen_by_child() == 3);
        CHECK(fcntl(second, F_SETFL, 0) == 0 && (fcntl(first, F_GETFL) & O_NONBLOCK) == 0 &&
              seen_by_child() == 1);
        CHECK(fcntl(first, F_SETFL, O_NONBLOCK) == 0 && seen_by_child() == 3);
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

test::Check sent_and_not_received() {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const auto send = [=](int fd) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
        char byte = 'n';
        iovec data{&byte, 1};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
        CHECK(sendmsg(ends[0], &message, 0) == 1);
        close(fd);
    };
    const auto receive = [=] {
        int fd = -1;
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
        char byte = 0;
        iovec data{&byte, 1};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        CHECK(recvmsg(ends[1], &message, MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&message) != nullptr);
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        return fd;
    };
    send(open_namespace("mnt"));
    return [=](bool) {
        const int fd = receive();
        CHECK(is_own(fd, "mnt", CLONE_NEWNS));
        send(fd);
    };
}

}  // namespace

int main() {
    test::serve({
        {"cgroup", [] { return own<CLONE_NEWCGROUP>("cgroup"); }},
        {"ipc", [] { return own<CLONE_NEWIPC>("ipc"); }},
        {"mnt", [] { return own<CLONE_NEWNS>("mnt"); }},
        {"net", [] { return own<CLONE_NEWNET>("net"); }},
        {"pid", [] { return own<CLONE_NEWPID>("pid"); }},
        {"pid_for_children", [] { return own<CLONE_NEWPID>("pid_for_children"); }},
        {"time", [] { return own<CLONE_NEWTIME>("time"); }},
        {"time_for_children", [] { return own<CLONE_NEWTIME>("time_for_children"); }},
        {"user", [] { return own<CLONE_NEWUSER>("user"); }},
        {"uts", [] { return own<CLONE_NEWUTS>("uts"); }},
        {"gone back to", gone_back_to},
        {"held twice and by a child", held_twice_and_by_a_child},
        {"sent and not received", sent_and_not_received},
    });
}
