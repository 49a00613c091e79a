// What a seccomp filter says of a call.
#include "common/seccomp.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <random>

namespace cairn::seccomp_test {
namespace {

using seccomp::Code;

constexpr std::uint32_t nr = offsetof(seccomp_data, nr), arch = offsetof(seccomp_data, arch),
                        first_argument = offsetof(seccomp_data, args);

seccomp_data data_of(long number, std::uint64_t argument = 0) {
    seccomp_data data = {};
    data.nr = static_cast<int>(number);
    data.arch = AUDIT_ARCH_X86_64;
    data.args[0] = argument;
    return data;
}

Code forbid(long number, std::uint32_t action) {
    return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
            BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}

TEST(SeccompFilter, ByNumber) {
    const auto code = forbid(SYS_setsid, SECCOMP_RET_ERRNO | 13);
    EXPECT_EQ(seccomp::evaluate(code, data_of(SYS_setsid)), SECCOMP_RET_ERRNO | 13);
    EXPECT_EQ(seccomp::evaluate(code, data_of(SYS_getpid)), SECCOMP_RET_ALLOW);
    EXPECT_FALSE(seccomp::allows(code, {"setsid", SYS_setsid}));
    EXPECT_TRUE(seccomp::allows(code, {"getpid", SYS_getpid}));
    EXPECT_FALSE(seccomp::may_notify(code));
    EXPECT_TRUE(seccomp::may_notify(forbid(SYS_setsid, SECCOMP_RET_USER_NOTIF)));
    EXPECT_TRUE(seccomp::may_notify(Code{BPF_STMT(BPF_RET | BPF_A, 0)}));
}

TEST(SeccompFilter, LoggedCallsAreMade) {
    EXPECT_TRUE(seccomp::allows(forbid(SYS_setsid, SECCOMP_RET_LOG), {"setsid", SYS_setsid}));
    for (const std::uint32_t action : {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
                                       SECCOMP_RET_TRACE, SECCOMP_RET_ERRNO})
        EXPECT_FALSE(seccomp::allows(forbid(SYS_setsid, action), {"setsid", SYS_setsid}));
}

TEST(SeccompFilter, WhatTheKernelWouldNotAccept) {
    EXPECT_EQ(seccomp::evaluate({}, data_of(1)), SECCOMP_RET_KILL_PROCESS);
    EXPECT_EQ(seccomp::evaluate(Code{BPF_JUMP(BPF_JMP | BPF_JA, 1000, 0, 0)}, data_of(1)),
              SECCOMP_RET_KILL_PROCESS);
    EXPECT_EQ(seccomp::evaluate(Code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4000), BPF_STMT(BPF_RET | BPF_A, 0)},
                                data_of(1)),
              SECCOMP_RET_KILL_PROCESS);
}

// What isn't known is allowed only if it is whatever it may be.
TEST(SeccompFilter, UnknownArguments) {
    using seccomp::any;
    const auto jumps_on = [](std::uint32_t word, std::uint32_t value) {
        return Code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word),
                    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff),
                    BPF_STMT(BPF_MISC | BPF_TAX, 0),
                    BPF_STMT(BPF_LD | BPF_IMM, value),
                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    };
    const Code code = jumps_on(first_argument, 5);
    EXPECT_TRUE(seccomp::allows(code, {"munmap", SYS_munmap, {4}}));
    EXPECT_FALSE(seccomp::allows(code, {"munmap", SYS_munmap, {5}}));
    EXPECT_FALSE(seccomp::allows(code, {"munmap", SYS_munmap, {any}}));
    EXPECT_TRUE(seccomp::allows(code, {"munmap", SYS_munmap, {4, any}}));
    EXPECT_FALSE(seccomp::allows(code, {"munmap", SYS_munmap, {std::uint64_t{7} << 32 | 5}}));
    // nobody knows where a call comes from
    constexpr std::uint32_t instruction = offsetof(seccomp_data, instruction_pointer);
    EXPECT_FALSE(seccomp::allows(jumps_on(instruction, 5), {"getpid", SYS_getpid}));
    EXPECT_FALSE(seccomp::allows(
        Code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first_argument), BPF_STMT(BPF_RET | BPF_A, 0)},
        {"munmap", SYS_munmap, {any}}));
}

TEST(SeccompFilter, TooManyWaysAreRefused) {
    Code code;
    for (int i = 0; i < 100; ++i) {  // each leads to the same place by two ways
        code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first_argument));
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(i), 0, 1));
        code.push_back(BPF_STMT(BPF_ST, 0));
    }
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    EXPECT_FALSE(seccomp::allows(code, {"munmap", SYS_munmap, {seccomp::any}}));
    EXPECT_TRUE(seccomp::allows(code, {"munmap", SYS_munmap, {3}}));
}

TEST(SeccompFilter, TheNextOneIsAddedAsTheOthersAllow) {
    using seccomp::Way;
    const auto way = [](std::vector<Code> before, bool log = false, bool together = true) {
        return seccomp::next_step(before, log, together).way;
    };
    EXPECT_EQ(way({}), Way::synchronized);
    EXPECT_EQ(way({}, false, false), Way::seccomp);
    EXPECT_EQ(way({forbid(SYS_seccomp, SECCOMP_RET_ERRNO)}), Way::prctl);
    EXPECT_EQ(way({forbid(SYS_seccomp, SECCOMP_RET_ERRNO)}, true), Way::none);
    EXPECT_EQ(way({forbid(SYS_prctl, SECCOMP_RET_ERRNO)}), Way::synchronized);
    EXPECT_EQ(way({forbid(SYS_prctl, SECCOMP_RET_TRAP), forbid(SYS_seccomp, SECCOMP_RET_TRAP)}), Way::none);
    // seccomp(2) without flags only
    const Code flags = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first_argument + 8),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    EXPECT_EQ(way({flags}), Way::seccomp);
}

// Whatever the kernel accepts, it answers as we do: a child installs the filter and calls.
class Random {
  public:
    explicit Random(unsigned seed) : generator_(seed) {}
    std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(generator_() % end); }

    // Computes over what it loads, and ends in an ERRNO of the accumulator for getppid(), else ALLOW.
    Code code() {
        Code code;
        const std::uint32_t length = 4 + below(30);
        // a memory word must be stored before it is loaded
        for (std::uint32_t word = 0; word < 4; ++word) {
            code.push_back(BPF_STMT(BPF_LD | BPF_IMM, below(1000)));
            code.push_back(BPF_STMT(BPF_ST, word));
        }
        for (std::uint32_t i = 0; i < length; ++i) code.push_back(instruction(length - i));
        code.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff));
        code.push_back(BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO));
        code.push_back(BPF_STMT(BPF_ST, 5));
        code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arch));
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4));
        code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr));
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 2));
        code.push_back(BPF_STMT(BPF_LD | BPF_MEM, 5));
        code.push_back(BPF_STMT(BPF_RET | BPF_A, 0));
        code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        return code;
    }

  private:
    sock_filter instruction(std::uint32_t left) {
        const std::uint32_t value = below(8) == 0 ? 1 + below(0xfffffffe) : 1 + below(40);
        const auto source = static_cast<std::uint16_t>(below(2) == 0 ? BPF_K : BPF_X);
        switch (below(6)) {
            case 0: {  // not x: it may be 0, or more than there are bits
                constexpr std::array operations = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR, BPF_AND, BPF_XOR};
                return BPF_STMT(static_cast<std::uint16_t>(BPF_ALU | operations[below(6)] | source), value);
            }
            case 1: {
                constexpr std::array operations = {BPF_DIV, BPF_LSH, BPF_RSH, BPF_NEG};
                const auto which = below(4);
                return BPF_STMT(static_cast<std::uint16_t>(BPF_ALU | operations[which] | BPF_K),
                                which == 0   ? value
                                : which == 3 ? 0
                                             : below(32));
            }
            case 2: {
                constexpr std::array operations = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
                return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | operations[below(4)] | source), value,
                                static_cast<std::uint8_t>(below(left)),
                                static_cast<std::uint8_t>(below(left)));
            }
            case 3:
                return below(2) == 0 ? sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 4 * below(12))
                                     : sock_filter BPF_STMT(BPF_LDX | BPF_MEM, below(4));
            case 4:
                return below(2) == 0 ? sock_filter BPF_STMT(BPF_ST, below(4))
                                     : sock_filter BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0);
            default:
                return below(2) == 0 ? sock_filter BPF_STMT(BPF_MISC | BPF_TAX, 0)
                                     : sock_filter BPF_STMT(BPF_MISC | BPF_TXA, 0);
        }
    }

    std::mt19937 generator_;
};

TEST(SeccompFilter, AnswersAsTheKernelDoes) {
    const auto seed = std::random_device()();
    SCOPED_TRACE(seed);
    Random random(seed);
    int accepted = 0;
    for (int round = 0; round < 100; ++round) {
        const auto code = random.code();
        seccomp_data data = data_of(SYS_getppid);
        for (auto& argument : data.args)
            argument = std::uint64_t{random.below(0xffffffff)} << 32 | random.below(50);
        const auto expected = seccomp::evaluate(code, data);
        ASSERT_EQ(expected & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
        const pid_t child = ::fork();
        if (child == 0) {
            const sock_fprog program = {static_cast<unsigned short>(code.size()),
                                        const_cast<sock_filter*>(code.data())};
            if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
                ::_exit(2);
            const long result = ::syscall(SYS_getppid, data.args[0], data.args[1], data.args[2], data.args[3],
                                          data.args[4], data.args[5]);
            // ERRNO's data is at most MAX_ERRNO (4095); 0 lets the call return 0
            const auto wanted = static_cast<long>(expected & SECCOMP_RET_DATA);
            ::_exit((wanted == 0 ? result == 0 : result == -1 && errno == wanted) ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        EXPECT_NE(WEXITSTATUS(status), 1) << "the kernel says something else, round " << round;
        accepted += WEXITSTATUS(status) == 0 ? 1 : 0;
    }
    if (accepted == 0) GTEST_SKIP() << "filters are forbidden here";
    EXPECT_EQ(accepted, 100);
}

}  // namespace
}  // namespace cairn::seccomp_test
