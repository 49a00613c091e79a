// Several users in one pid namespace of a user namespace, to which its maker has been given more than his own
// (newuidmap(1), or by root): others than the first process's, other groups, and a first process who is
// somebody else than its maker; what each of them may do in there.
// ci: exact virtual
// narrow: none
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "own_space.h"

namespace {
using namespace own_space;

constexpr uid_t somebody = 33, somebody_else = 34;

std::string name_of_user() {
    const passwd* const entry = getpwuid(user);
    return entry == nullptr ? "" : entry->pw_name;
}

// 0 1000 1 1 100000 100: a user's own, and of his range in /etc/subuid.
std::vector<std::string> words_of_map(pid_t whom, const char* ranges) {
    std::vector<std::string> words{std::to_string(whom), "0", std::to_string(user), "1"};
    const std::string text = content(ranges);
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
        const std::string line = text.substr(at, text.find('\n', at) - at);
        const auto colon = line.find(':');
        const std::string name = line.substr(0, colon);
        if (name != std::to_string(user) && name != name_of_user()) continue;
        for (const auto& word :
             {std::string("1"), line.substr(colon + 1, line.rfind(':') - colon - 1), std::string("100")})
            words.push_back(word);
        return words;
    }
    return {};
}

bool map_by(const char* program, const char* ranges, pid_t whom) {
    auto words = words_of_map(whom, ranges);
    if (words.empty()) return false;
    std::vector<char*> arguments{const_cast<char*>(program)};
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t helper = fork();
    if (helper == 0) {
        execvp(program, arguments.data());
        _exit(127);
    }
    int status = 0;
    return waitpid(helper, &status, 0) == helper && status == 0;
}

bool give_maps(pid_t whom) {
    if (user != 0)
        return map_by("newuidmap", "/etc/subuid", whom) && map_by("newgidmap", "/etc/subgid", whom);
    for (const char* file : {"/uid_map", "/gid_map"})
        put("/proc/" + std::to_string(whom) + file, "0 0 1\n1 100000 100");
    return true;
}

bool maps_can_be_had() {
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0);
    const pid_t probe = fork();
    if (probe == 0) {
        CHECK(unshare(CLONE_NEWUSER) == 0 && write(ends[1], &byte, 1) == 1);
        for (;;) pause();
    }
    CHECK(read(ends[0], &byte, 1) == 1 && close(ends[0]) == 0 && close(ends[1]) == 0);
    const bool given = give_maps(probe);
    CHECK(kill(probe, SIGKILL) == 0 && waitpid(probe, nullptr, 0) == probe);
    return given;
}

// In a user namespace with several users.
void be_one_of_many(int besides) {
    int ends[2], answers[2];
    CHECK(pipe(ends) == 0 && pipe(answers) == 0);
    const pid_t self = getpid(), mapper = fork();
    char byte = '.';
    if (mapper == 0) {
        CHECK(read(ends[0], &byte, 1) == 1);
        byte = give_maps(self) ? '.' : 'x';
        CHECK(write(answers[1], &byte, 1) == 1);
        _exit(0);
    }
    CHECK(unshare(CLONE_NEWUSER | besides) == 0);
    CHECK(write(ends[1], &byte, 1) == 1 && read(answers[0], &byte, 1) == 1 && byte == '.');
    CHECK(waitpid(mapper, nullptr, 0) == mapper);
    for (const int fd : {ends[0], ends[1], answers[0], answers[1]}) close(fd);
    CHECK(setgid(0) == 0 && setuid(0) == 0);
}

void become(uid_t who, const std::vector<gid_t>& groups, bool keeps = false) {
    if (keeps) CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
    CHECK(setgroups(groups.size(), groups.data()) == 0);
    CHECK(setresgid(who, who, who) == 0 && setresuid(who, who, who) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

struct Who {
    uid_t uids[3] = {};
    gid_t gids[3] = {};
    std::vector<gid_t> groups;
    __user_cap_data_struct rights[2] = {};

    Who() {
        CHECK(getresuid(&uids[0], &uids[1], &uids[2]) == 0 && getresgid(&gids[0], &gids[1], &gids[2]) == 0);
        groups.resize(static_cast<std::size_t>(getgroups(0, nullptr)));
        CHECK(getgroups(static_cast<int>(groups.size()), groups.data()) == static_cast<int>(groups.size()));
        __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        CHECK(syscall(SYS_capget, &header, rights) == 0);
    }
    void verify() const {
        const Who now;
        CHECK(std::ranges::equal(uids, now.uids) && std::ranges::equal(gids, now.gids));
        CHECK(groups == now.groups);
        CHECK(std::memcmp(rights, now.rights, sizeof rights) == 0);
    }
};

// One in the namespace, with a child that is somebody else than itself.
Child* one(
    const std::function<void()>& begin, const std::function<void()>& look = [] {}) {
    struct Kept {
        Who who;
        pid_t pid = getpid(), parent = getppid();
    };
    auto* const kept = new Kept*(nullptr);
    return new Child(
        [=] {
            begin();
            *kept = new Kept;
        },
        [=] {
            (*kept)->who.verify();
            CHECK(getpid() == (*kept)->pid && getppid() == (*kept)->parent);
            look();
        });
}

test::Check several(uid_t first_one, bool late = false) {
    static Child *first, *root, *other, *another;
    return by(new Child(
        [=] {
            be_one_of_many(CLONE_NEWPID);
            first = one(
                [=] {
                    root = one([] { CHECK(setgroups(0, nullptr) == 0); });
                    other = one([] { become(somebody, {5, 7}); });
                    another = one([] { become(somebody_else, {}, true); });
                    if (late) test::nap(300);
                    if (first_one != 0) become(first_one, {somebody_else});
                },
                [] {
                    root->ask();
                    other->ask();
                    another->ask();
                });
        },
        [] { first->ask(); }));
}

}  // namespace

int main() {
    need_user_namespaces();
    if (!maps_can_be_had())
        test::skip("newuidmap can't be had, or is set-id, which a launched program doesn't execute");
    test::serve({{"first is root", [] { return several(0); }},
                 {"first is somebody", [] { return several(somebody); }},
                 {"first becomes somebody when it is known", [] { return several(somebody, true); }}});
}
