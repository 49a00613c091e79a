// Namespaces that processes have made for themselves (unshare(2), clone(2)): user namespaces with their maps
// and rights, one below another, host names, networks with their loopback, IPC, cgroups; processes that share
// one; descriptors of them; what they may do in them, and what not.
// ci: exact user
// narrow: none
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "own_space.h"

namespace {
using namespace own_space;

ino_t inode(const std::string& space, const std::string& whose = "self") {
    struct stat status = {};
    CHECK(stat(("/proc/" + whose + "/ns/" + space).c_str(), &status) == 0);
    return status.st_ino;
}

std::string field(const std::string& name) {
    const std::string status = content("/proc/self/status");
    const auto at = status.find("\n" + name + ":");
    CHECK(at != std::string::npos);
    return status.substr(at + name.size() + 3, status.find('\n', at + 1) - at - name.size() - 3);
}

test::Check root_of_ones_own() {
    return by(new Child(
        [] { be_root_of_ones_own(); },
        [] {
            CHECK(getuid() == 0 && geteuid() == 0 && getgid() == 0);
            CHECK(field("CapEff") == field("CapBnd") && field("CapEff") != "0000000000000000");
            CHECK(content("/proc/self/setgroups") == "deny\n");
            unsigned inside = 9, outside = 9, count = 9;
            CHECK(sscanf(content("/proc/self/uid_map").c_str(), "%u %u %u", &inside, &outside, &count) == 3);
            CHECK(inside == 0 && outside == user && count == 1);
        }));
}

// Nobody has given it a map, and no right has outlasted the exec that a shell would do.
test::Check nobody_of_ones_own() {
    return by(new Child([] { CHECK(unshare(CLONE_NEWUSER) == 0); },
                        [] {
                            CHECK(getuid() == 65534 && content("/proc/self/uid_map").empty());
                            CHECK(field("CapEff") == field("CapBnd"));
                        }));
}

test::Check without_rights() {
    return by(new Child(
        [] {
            CHECK(unshare(CLONE_NEWUSER) == 0);
            put("/proc/self/uid_map", "4711 " + std::to_string(user) + " 1");
            CHECK(prctl(PR_CAPBSET_DROP, 21, 0, 0, 0) == 0);  // CAP_SYS_ADMIN
            __extension__ const struct {
                unsigned version;
                int pid;
            } header = {0x20080522, 0};
            const unsigned none[6] = {};
            CHECK(syscall(SYS_capset, &header, none) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        },
        [] {
            CHECK(getuid() == 4711 && getgid() == 65534);
            CHECK(field("CapEff") == "0000000000000000" && prctl(PR_CAPBSET_READ, 21, 0, 0, 0) == 0);
            CHECK(prctl(PR_CAPBSET_READ, 0, 0, 0, 0) == 1 && sethostname("x", 1) == -1 && errno == EPERM);
        }));
}

// One below another, each with its own host name.
test::Check one_below_another() {
    return by(new Child(
        [] {
            be_root_of_ones_own();
            CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname("upper", 5) == 0);
            CHECK(unshare(CLONE_NEWUSER) == 0);
            put("/proc/self/setgroups", "deny");
            put("/proc/self/uid_map", "33 0 1");
            put("/proc/self/gid_map", "34 0 1");
            CHECK(unshare(CLONE_NEWIPC) == 0);
        },
        [] {
            utsname names = {};
            CHECK(uname(&names) == 0 && std::string(names.nodename) == "upper");
            CHECK(getuid() == 33 && getgid() == 34 && field("CapEff") == field("CapBnd"));
            CHECK(sethostname("no", 2) == -1 && errno == EPERM);  // it belongs to the upper one
        }));
}

test::Check host_name() {
    return by(new Child(
        [] {
            be_root_of_ones_own();
            CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname("box", 3) == 0 &&
                  setdomainname("dom.ain", 7) == 0);
        },
        [] {
            utsname names = {};
            CHECK(uname(&names) == 0 && std::string(names.nodename) == "box");
            CHECK(std::string(names.domainname) == "dom.ain");
            CHECK(sethostname("box", 3) == 0);
        }));
}

template <bool up>
test::Check network() {
    return by(new Child(
        [] {
            be_root_of_ones_own();
            CHECK(unshare(CLONE_NEWNET) == 0);
            const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            ifreq request = {};
            strcpy(request.ifr_name, "lo");
            CHECK(ioctl(any, SIOCGIFFLAGS, &request) == 0);
            if (up) request.ifr_flags |= IFF_UP;
            CHECK(ioctl(any, SIOCSIFFLAGS, &request) == 0 && close(any) == 0);
        },
        [] {
            const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_in address = {};
            address.sin_family = AF_INET;
            address.sin_port = htons(80);
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            const auto* generic = reinterpret_cast<const sockaddr*>(&address);
            CHECK(bind(listening, generic, sizeof address) == 0 && listen(listening, 1) == 0);
            const int calling = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            const int called = connect(calling, generic, sizeof address);
            CHECK(up ? called == 0 : called == -1 && errno == ENETUNREACH);
            CHECK(close(calling) == 0);
            CHECK(close(listening) == 0);
            const std::string devices = content("/proc/self/net/dev");
            CHECK(devices.find("lo:") != std::string::npos);
            CHECK(std::count(devices.begin(), devices.end(), ':') == 1);
        }));
}

// What is made in it and gone at the checkpoint isn't outside.
test::Check queues() {
    return by(new Child(
        [] {
            be_root_of_ones_own();
            CHECK(unshare(CLONE_NEWIPC | CLONE_NEWCGROUP) == 0);
        },
        [] {
            CHECK(msgget(4711, 0) == -1 && errno == ENOENT);
            const int queue = msgget(4711, IPC_CREAT | 0600);
            CHECK(queue >= 0 && msgctl(queue, IPC_RMID, nullptr) == 0);
        }));
}

// A child is in the same ones, and another process holds descriptors of them.
test::Check shared_and_held() {
    auto* child = new Child(
        [] {
            be_root_of_ones_own();
            CHECK(unshare(CLONE_NEWUTS | CLONE_NEWNET) == 0 && sethostname("both", 4) == 0);
            const pid_t grandchild = fork();
            if (grandchild == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) pause();
            }
            CHECK(grandchild > 0);
            put("/proc/self/comm", std::to_string(grandchild));
        },
        [] {
            const std::string named = content("/proc/self/comm");
            const std::string grandchild = named.substr(0, named.size() - 1);
            for (const char* space : {"user", "uts", "net", "ipc"})
                CHECK(inode(space) == inode(space, grandchild));
        });
    const std::string own = std::to_string(child->pid());
    const int held = open(("/proc/" + own + "/ns/uts").c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(held >= 0);
    return [=](bool last) {
        child->ask();
        struct stat status = {};
        CHECK(fstat(held, &status) == 0 && status.st_ino == inode("uts", std::to_string(child->pid())));
        CHECK(status.st_ino != inode("uts"));
        if (last)
            CHECK(kill(child->pid(), SIGKILL) == 0 && waitpid(child->pid(), nullptr, 0) == child->pid());
    };
}

}  // namespace

int main() {
    need_user_namespaces();
    test::serve({
        {"root of one's own", root_of_ones_own},
        {"nobody of one's own", nobody_of_ones_own},
        {"without rights", without_rights},
        {"one below another", one_below_another},
        {"host name", host_name},
        {"network", network<true>},
        {"network that is down", network<false>},
        {"queues", queues},
        {"shared and held", shared_and_held},
    });
}
