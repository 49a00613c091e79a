// What `cairn doctor` makes of what it has seen: which line, which advice, which verdict.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "cli/doctor/text.h"

namespace cairn::doctor {
namespace {

Setting ordinary_user() {
    Setting setting;
    setting.user = 1000;
    setting.folder = "/home/ann/ckpt";
    return setting;
}

Setting as_root() {
    Setting setting = ordinary_user();
    setting.user = 0;
    setting.root = true;
    setting.who = "root";
    return setting;
}

Observation refused(const std::string& call, int error, std::map<std::string, std::string> facts = {}) {
    auto seen = failed(call, error);
    seen.facts = std::move(facts);
    return seen;
}

Observation killed_by(int signal) {
    Observation seen;
    seen.end = Observation::End::killed;
    seen.signal = signal;
    return seen;
}

Observation no_answer() {
    Observation seen;
    seen.end = Observation::End::late;
    return seen;
}

Observation told(const std::string& said, std::map<std::string, std::string> facts) {
    auto seen = worked(said);
    seen.facts = std::move(facts);
    return seen;
}

Line judged(std::string_view name, const Observation& seen, const Setting& setting = ordinary_user()) {
    const Probe* probe = find_probe(name);
    if (probe == nullptr) {
        ADD_FAILURE() << "there is no probe " << name;
        return {};
    }
    return judge(*probe, seen, setting);
}

void expect_words(const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(DoctorJudge, WhatWorksIsOk) {
    const auto line = judged("ptrace", told("stopped", {{"yama", "1"}}));
    EXPECT_EQ(line.state, State::ok);
    EXPECT_EQ(line.found, "stopped (kernel.yama.ptrace_scope is 1)");
    EXPECT_TRUE(line.meaning.empty() && line.remedy.empty());
}

TEST(DoctorJudge, PtraceNamesTheRuleAndTheWayOut) {
    struct Case {
        std::map<std::string, std::string> facts;
        std::string found, remedy;
    };
    for (const auto& each :
         {Case{{{"yama", "2"}}, "ptrace_scope is 2", "as root: sysctl kernel.yama.ptrace_scope=1"},
          Case{{{"yama", "3"}}, "ptrace_scope is 3", "start the machine anew"},
          Case{{{"yama", "3"}, {"cap_sys_ptrace", "1"}}, "ptrace_scope is 3", "start the machine anew"},
          Case{{{"yama", "2"}, {"cap_sys_ptrace", "1"}, {"seccomp", "2"}},
               "seccomp filter",
               "--cap-add=SYS_PTRACE"},
          Case{{{"deny_ptrace", "1 1"}, {"selinux", "1"}}, "deny_ptrace", "setsebool -P deny_ptrace off"},
          Case{{{"seccomp", "2"}}, "seccomp filter", "seccomp=unconfined"},
          Case{{{"apparmor", "docker-default (enforce)"}, {"seccomp", "0"}},
               "docker-default",
               "ptrace (trace, read"},
          Case{{{"apparmor", "unconfined"}, {"selinux", "1"}}, "SELinux is enforcing", "ausearch"}}) {
        const auto line = judged("ptrace", refused("ptrace", EPERM, each.facts));
        EXPECT_EQ(line.state, State::missing);
        EXPECT_TRUE(line.needed);
        expect_words(line.found, each.found);
        expect_words(line.remedy, each.remedy);
    }
}

TEST(DoctorJudge, OneRuleIsToldOnce) {
    expect_words(judged("process_memory", refused("process_vm_readv", EPERM)).remedy, "said at ptrace");
    expect_words(judged("process_memory", refused("process_vm_readv", ENOSYS)).remedy, "a kernel");
}

TEST(DoctorJudge, WhatAContainerForbidsIsDoneInAnotherWay) {
    for (const int error : {EPERM, ENOSYS}) {
        const auto line = judged("descriptors", refused("pidfd_getfd", error));
        EXPECT_EQ(line.state, State::slower);
        EXPECT_FALSE(line.needed);
        expect_words(line.meaning, "send their descriptors");
        expect_words(line.remedy, "SYS_PTRACE");
    }
}

TEST(DoctorJudge, WhomAFilterKillsIsNoUseToCairnEither) {
    for (const char* name : {"uffd_move", "ptrace", "futex_waitv"}) {
        const auto line = judged(name, killed_by(SIGSYS));
        EXPECT_EQ(line.state, State::missing) << name;
        EXPECT_TRUE(line.needed) << name;
        expect_words(line.found, "SIGSYS");
        expect_words(line.remedy, "seccomp filter that answers EPERM");
    }
    // cairn itself never asks for it.
    const auto line = judged("io_uring", killed_by(SIGSYS));
    EXPECT_EQ(line.state, State::note);
    EXPECT_FALSE(line.needed);
}

TEST(DoctorJudge, ASilentProbeIsTold) {
    const auto line = judged("checkpoint_folder", no_answer());
    EXPECT_EQ(line.state, State::missing);
    EXPECT_TRUE(line.needed);
    expect_words(line.found, "/home/ann/ckpt doesn't answer");
    expect_words(line.remedy, "--timeout");
    const auto rehearsal = judged("rehearsal", no_answer());
    EXPECT_EQ(rehearsal.state, State::note);
    EXPECT_FALSE(rehearsal.needed);
    // A checkpoint whose deadline passed says nothing else.
    EXPECT_EQ(judged("rehearsal", refused("cairn checkpoint", ECANCELED, {{"code", "6"}})).state,
              State::note);
    EXPECT_TRUE(judged("rehearsal", refused("cairn checkpoint", ECANCELED, {{"code", "3"}})).needed);
}

TEST(DoctorJudge, IdsDependOnWhoAsks) {
    const auto of_user = judged("ids", refused("clone3 (set_tid)", EPERM));
    EXPECT_EQ(of_user.state, State::note);
    expect_words(of_user.meaning, "virtual ids");
    EXPECT_TRUE(of_user.remedy.empty());
    expect_words(judged("ids", refused("clone3 (set_tid)", EPERM), as_root()).remedy, "CHECKPOINT_RESTORE");
    expect_words(judged("ids", refused("clone3 (set_tid)", ENOSYS), as_root()).remedy, "5.5");
}

TEST(DoctorJudge, NamespacesNameTheirSwitch) {
    for (const auto& [fact, value, remedy] :
         {std::tuple{"most", "0", "user.max_user_namespaces"},
          std::tuple{"clone", "0", "unprivileged_userns_clone=1"},
          std::tuple{"apparmor", "1", "apparmor_restrict_unprivileged_userns=0"}})
        expect_words(judged("user_namespaces", refused("unshare", EPERM, {{fact, value}})).remedy, remedy);
}

TEST(DoctorJudge, AMissingModuleIsNamed) {
    const auto line = judged("sockets.unix", refused("sock_diag", ENOENT));
    EXPECT_EQ(line.state, State::missing);
    EXPECT_FALSE(line.needed);
    expect_words(line.remedy, "modprobe unix_diag");
}

TEST(DoctorJudge, HiddenProcessesAreNoObstacle) {
    const auto line = judged("proc", told("mounted", {{"hidepid", "2"}}));
    EXPECT_EQ(line.state, State::note);
    expect_words(line.found, "hidepid=2");
    EXPECT_EQ(judged("proc", told("mounted", {{"hidepid", "2"}}), as_root()).state, State::ok);
}

TEST(DoctorJudge, FileSystems) {
    EXPECT_EQ(judged("file_system", told("ext4", {{"kind", "ext4"}})).state, State::ok);
    EXPECT_EQ(judged("file_system", told("NFS", {{"kind", "NFS"}, {"network", "1"}})).state, State::slower);
    expect_words(judged("file_system", told("tmpfs", {{"kind", "tmpfs"}})).meaning, "lost by a reboot");
    expect_words(judged("file_system", told("ext4", {{"kind", "ext4"}, {"noexec", "1"}})).remedy,
                 "sh restart.sh");
    expect_words(judged("checkpoint_folder", refused("/small", ENOSPC)).remedy, "make room");
    EXPECT_EQ(judged("space", told("9 B", {{"free", "9"}})).state, State::note);
    EXPECT_EQ(judged("space", told("9 GiB", {{"free", "9663676416"}})).state, State::ok);
}

TEST(DoctorJudge, Limits) {
    EXPECT_EQ(judged("ulimits", told("", {{"files", "1024"}})).state, State::ok);
    const auto few = judged("ulimits", told("", {{"files", "256"}, {"low", "256 files"}}));
    EXPECT_EQ(few.state, State::missing);
    EXPECT_TRUE(few.needed);
    EXPECT_EQ(judged("ulimits", told("", {{"files", "700"}, {"low", "700 files"}})).state, State::note);
    const auto crowded =
        judged("processes", told("room for 7 more", {{"room", "7"}, {"whose", "ulimit -u"}}));
    EXPECT_EQ(crowded.state, State::note);
    expect_words(crowded.found, "ulimit -u");
    expect_words(judged("memory", told("", {{"left", "1000"}, {"limited", "1"}})).remedy, "memory.max");
    EXPECT_EQ(judged("overcommit", told("", {{"value", "2"}})).state, State::note);
    EXPECT_EQ(judged("huge_pages", told("never", {{"thp", "never"}})).state, State::slower);
}

TEST(DoctorJudge, NamesAreUniqueAndStable) {
    std::set<std::string_view> names;
    for (const auto probes : {checkpoint_probes(), socket_probes(), restart_probes(), speed_probes(),
                              storage_probes(), limit_probes(), rehearsal_probes()})
        for (const Probe& probe : probes) {
            EXPECT_TRUE(names.insert(probe.name).second) << probe.name;
            // What is missing is never told without what to do.
            if (probe.otherwise == State::missing) {
                EXPECT_FALSE(probe.remedy.empty()) << probe.name;
                EXPECT_FALSE(probe.meaning.empty()) << probe.name;
            }
        }
    EXPECT_GT(names.size(), 35U);
}

TEST(DoctorVerdict, CountsAndNames) {
    const Line good{.name = "rehearsal"};
    const Line slow{.name = "lazy", .state = State::slower};
    const Line lacks{.name = "sockets.unix", .state = State::missing};
    const Line broken{.name = "ptrace", .state = State::missing, .needed = true};
    const Line late{.name = "rehearsal", .state = State::note};
    EXPECT_EQ(verdict({good}, as_root()), "cairn works here as root; nothing is slower, nothing is missing");
    EXPECT_EQ(verdict({good, slow, slow, lacks}, ordinary_user()),
              "cairn works here as an ordinary user; 2 things are slower, 1 is missing");
    EXPECT_EQ(verdict({good, lacks}, ordinary_user()),
              "cairn works here as an ordinary user; 1 thing is missing");
    EXPECT_EQ(verdict({broken, late}, ordinary_user()),
              "cairn does not work here as an ordinary user; what it needs and is missing: ptrace");
    expect_words(verdict({late}, as_root()), "should work");
    EXPECT_TRUE(works({good, lacks, late}));
    EXPECT_FALSE(works({good, broken}));
}

TEST(DoctorVerdict, ReportAndJson) {
    const std::vector<Line> lines{
        {.group = Group::speed, .name = "lazy", .state = State::slower, .found = "n\x1bo"}};
    const auto text = report(lines, as_root(), false);
    EXPECT_EQ(text.find('\033'), std::string::npos);
    EXPECT_LT(text.find("checkpoint\n"), text.find("slower   lazy"));
    EXPECT_NE(report(lines, as_root(), true).find("\033[33m"), std::string::npos);
    const auto json = as_json(lines, as_root());
    EXPECT_EQ(json["slower"], 1);
    EXPECT_EQ(json["checks"][0]["group"], "speed");
    EXPECT_EQ(json["checks"][0]["state"], "slower");
    EXPECT_EQ(json["works"], true);
}

TEST(DoctorAttempt, WhatHangsOrDiesIsSeen) {
    const auto began = Clock::now();
    const auto seen = try_all({[] { return worked("here"); },
                               [] {
                                   ::raise(SIGSYS);
                                   return worked();
                               },
                               []() -> Observation {
                                   for (;;) ::pause();
                               },
                               [] { return failed("open", ENOENT); }, []() -> Observation { ::_exit(3); }},
                              began + std::chrono::seconds(3), 2);
    EXPECT_LT(Clock::now() - began, std::chrono::seconds(20));
    ASSERT_EQ(seen.size(), 5U);
    EXPECT_TRUE(seen[0].worked());
    EXPECT_EQ(seen[0].said, "here");
    EXPECT_TRUE(seen[1].killed());
    EXPECT_EQ(seen[1].signal, SIGSYS);
    EXPECT_TRUE(seen[2].late());
    EXPECT_EQ(seen[3].why(), "open: No such file or directory");
    EXPECT_EQ(seen[4].why(), "it ended without a word");
}

}  // namespace
}  // namespace cairn::doctor
