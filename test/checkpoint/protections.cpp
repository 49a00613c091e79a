// What programs do to be safe from themselves: memory that is sealed (mseal(2)), memory that may not become
// executable (PR_SET_MDWE), threads that mustn't be guessed for (PR_SET_SPECULATION_CTRL) or ask what
// processor this is (ARCH_SET_CPUID), memory that threads reach by keys (pkeys(7)), and huge pages for who
// asks for them alone.
// heirs: exact
#include <asm/prctl.h>
#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "answering_child.h"
#include "asked_thread.h"
#include "step_over.h"
#include "support.h"

namespace {

// Newer than Debian 12's headers.
constexpr int set_mdwe = 65, get_mdwe = 66, refuse_exec_gain = 1, no_inherit = 2;
constexpr long mseal_call = 462;
constexpr int except_advised = 2;

constexpr std::size_t page = 4096;

char* some_memory(int prot = PROT_READ | PROT_WRITE) {
    void* const at = mmap(nullptr, 4 * page, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<char*>(at);
}

bool may_be_changed(char* at, int prot) {
    return mprotect(at, page, prot == PROT_READ ? PROT_NONE : PROT_READ) == 0 &&
           mprotect(at, page, prot) == 0;
}

// The middle of it alone, some that can be written to and some that can't, and some between neighbours that
// are as it was.
test::Check sealed_memory() {
    char* const writable = some_memory();
    char* const whole = some_memory();
    std::strcpy(writable + page, "writable");
    std::strcpy(whole, "for reading");
    CHECK(mprotect(whole, 4 * page, PROT_READ) == 0);
    if (syscall(mseal_call, writable + page, 2 * page, 0) != 0) return [](bool) {};
    CHECK(syscall(mseal_call, whole, 4 * page, 0) == 0);
    return [=](bool) {
        CHECK(std::strcmp(writable + page, "writable") == 0 && std::strcmp(whole, "for reading") == 0);
        writable[2 * page] = static_cast<char>(writable[2 * page] + 1);
        CHECK(may_be_changed(writable, PROT_READ | PROT_WRITE));
        CHECK(!may_be_changed(writable + page, PROT_READ | PROT_WRITE));
        CHECK(!may_be_changed(writable + 2 * page, PROT_READ | PROT_WRITE));
        CHECK(may_be_changed(writable + 3 * page, PROT_READ | PROT_WRITE));
        for (char* at = whole; at < whole + 4 * page; at += page) CHECK(!may_be_changed(at, PROT_READ));
        CHECK(munmap(whole, 4 * page) == -1 && errno == EPERM);
    };
}

bool may_become_executable() {
    char* const at = some_memory();
    const bool may = mprotect(at, page, PROT_READ | PROT_EXEC) == 0;
    CHECK(munmap(at, 4 * page) == 0);
    return may;
}

char flags_and_whether_it_holds(char) {
    const int flags = prctl(get_mdwe, 0, 0, 0, 0);
    CHECK(may_become_executable() == ((flags & refuse_exec_gain) == 0));
    return static_cast<char>('0' + flags);
}

test::Check denied_execution() {
    if (prctl(get_mdwe, 0, 0, 0, 0) != 0) return [](bool) {};
    const auto with = [](int flags) {
        return test::AnsweringChild([flags](char order) {
            if (order == 's') CHECK(prctl(set_mdwe, flags, 0, 0, 0) == 0);
            return flags_and_whether_it_holds(order);
        });
    };
    const auto denied = with(refuse_exec_gain), alone = with(refuse_exec_gain | no_inherit), free = with(0);
    CHECK(denied.ask('s') == '1' && alone.ask('s') == '3' && free.ask('?') == '0');
    return [=](bool last) {
        CHECK(denied.ask('?') == '1' && alone.ask('?') == '3' && free.ask('?') == '0');
        CHECK(may_become_executable());
        if (last)
            for (const auto* each : {&denied, &alone, &free}) each->end();
    };
}

test::Check huge_pages_for_who_asks() {
    const test::AnsweringChild child([](char order) {
        if (order == 's' && prctl(PR_SET_THP_DISABLE, 1, except_advised, 0, 0) != 0) return 'x';
        return static_cast<char>('0' + prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    });
    if (child.ask('s') == 'x') {
        child.end();
        return [](bool) {};
    }
    return [=](bool last) {
        CHECK(child.ask('?') == '3');
        if (last) child.end();
    };
}

void expect_guesses(long what, int state) {
    CHECK(prctl(PR_GET_SPECULATION_CTRL, what, 0, 0, 0) == static_cast<int>(PR_SPEC_PRCTL) + state);
}

test::Check guessing() {
    const auto may_choose = [](long what) {
        const int state = prctl(PR_GET_SPECULATION_CTRL, what, 0, 0, 0);
        return state == static_cast<int>(PR_SPEC_PRCTL | PR_SPEC_ENABLE);
    };
    const auto one = [](long what, int state) {
        return new test::Asked([=] { CHECK(prctl(PR_SET_SPECULATION_CTRL, what, state, 0, 0) == 0); },
                               [=] { expect_guesses(what, state); });
    };
    std::vector<test::Asked*> threads;
    for (const long what : {PR_SPEC_STORE_BYPASS, PR_SPEC_INDIRECT_BRANCH}) {
        if (!may_choose(what)) continue;
        threads.push_back(one(what, PR_SPEC_DISABLE));
        threads.push_back(one(what, PR_SPEC_FORCE_DISABLE));
        if (what == PR_SPEC_STORE_BYPASS) threads.push_back(one(what, PR_SPEC_DISABLE_NOEXEC));
    }
    const bool chooses = !threads.empty();
    return [=](bool) {
        for (auto* each : threads) each->ask();
        if (chooses) CHECK(may_choose(PR_SPEC_STORE_BYPASS) || may_choose(PR_SPEC_INDIRECT_BRANCH));
    };
}

bool cpuid_is_forbidden() {
    const int before = test::stepped_over;
    unsigned a = 0, b = 0, c = 0, d = 0;
    asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    CHECK((test::stepped_over != before) == (syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 0));
    return test::stepped_over != before;
}

test::Check processor() {
    test::step_over_forbidden();
    static bool can_be = false;
    auto* thread = new test::Asked([] { can_be = syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0; },
                                   [] { CHECK(cpuid_is_forbidden() == can_be); });
    return [=](bool) {
        CHECK(!cpuid_is_forbidden());
        thread->ask();
    };
}

// A thread's rights by a key are in a register of its own.
test::Check protection_keys() {
    const int first = pkey_alloc(0, 0), freed = pkey_alloc(0, 0), last = pkey_alloc(0, PKEY_DISABLE_WRITE);
    if (last < 0) return [](bool) {};
    CHECK(pkey_free(freed) == 0);
    char* const memory = some_memory();
    char* const code = some_memory(PROT_EXEC);  // for which the kernel takes a key
    std::strcpy(memory + page, "kept");
    CHECK(pkey_mprotect(memory + page, 2 * page, PROT_READ | PROT_WRITE, last) == 0);
    auto* thread = new test::Asked([=] { CHECK(pkey_set(last, PKEY_DISABLE_ACCESS) == 0); },
                                   [=] {
                                       CHECK(pkey_get(last) == PKEY_DISABLE_ACCESS);
                                       CHECK(access(memory + page, F_OK) == -1 && errno == EFAULT);
                                   });
    return [=](bool) {
        thread->ask();
        CHECK(pkey_get(last) == PKEY_DISABLE_WRITE && std::strcmp(memory + page, "kept") == 0);
        memory[0] = memory[3 * page] = 'x';
        CHECK(getcwd(memory + page, page) == nullptr && errno == EFAULT);
        CHECK(pkey_mprotect(memory, page, PROT_READ | PROT_WRITE, first) == 0);
        CHECK(pkey_mprotect(memory, page, PROT_READ | PROT_WRITE, freed) == -1 && errno == EINVAL);
        CHECK(pkey_mprotect(memory, page, PROT_READ | PROT_WRITE, 0) == 0);
        CHECK(access(code, F_OK) == -1 && errno == EFAULT);
    };
}

}  // namespace

int main() {
    test::serve({{"sealed memory", sealed_memory},
                 {"denied execution", denied_execution},
                 {"huge pages for who asks", huge_pages_for_who_asks},
                 {"guessing", guessing},
                 {"processor", processor},
                 {"protection keys", protection_keys}});
}
