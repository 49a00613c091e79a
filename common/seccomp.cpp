#include "common/seccomp.h"

#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace cairn::seccomp {
namespace {

using Word = std::optional<std::uint32_t>;  // nothing: it may be anything
using Data = std::array<Word, sizeof(seccomp_data) / sizeof(std::uint32_t)>;

// Where a run of a filter is. Jumps lead forward only, so each ends.
struct State {
    std::size_t at = 0;
    Word a = 0, x = 0;
    std::array<Word, BPF_MEMWORDS> memory = {};
};

Word operand(const State& state, const sock_filter& each) {
    return BPF_SRC(each.code) == BPF_X ? state.x : Word(each.k);
}

Word load(const State& state, const sock_filter& each, const Data& data) {
    switch (BPF_MODE(each.code)) {
        case BPF_IMM:
            return each.k;
        case BPF_MEM:
            return state.memory[each.k % BPF_MEMWORDS];
        case BPF_LEN:
            return sizeof(seccomp_data);
        default: {  // BPF_ABS: a word, aligned, and within (seccomp_check_filter)
            const std::size_t index = each.k / sizeof(std::uint32_t);
            return each.k % sizeof(std::uint32_t) == 0 && index < data.size() ? data[index] : Word();
        }
    }
}

bool holds(std::uint16_t operation, std::uint32_t a, std::uint32_t other) {
    switch (operation) {
        case BPF_JEQ:
            return a == other;
        case BPF_JGT:
            return a > other;
        case BPF_JGE:
            return a >= other;
        default:  // BPF_JSET
            return (a & other) != 0;
    }
}

std::uint32_t computed(std::uint16_t operation, std::uint32_t a, std::uint32_t other) {
    constexpr std::uint32_t bits = 31;
    switch (operation) {
        case BPF_ADD:
            return a + other;
        case BPF_SUB:
            return a - other;
        case BPF_MUL:
            return a * other;
        case BPF_DIV:
            return other == 0 ? 0 : a / other;
        case BPF_OR:
            return a | other;
        case BPF_AND:
            return a & other;
        case BPF_XOR:
            return a ^ other;
        case BPF_LSH:
            return a << (other & bits);
        case BPF_RSH:
            return a >> (other & bits);
        default:  // BPF_NEG; BPF_MOD is not for seccomp
            return -a;
    }
}

// The same where something isn't known.
Word computed(std::uint16_t operation, Word a, Word other) {
    if (operation == BPF_NEG) other = 0;
    if (operation == BPF_AND && (a == Word(0) || other == Word(0))) return 0;
    if (!a || !other) return {};
    return computed(operation, *a, *other);
}

// Goes all ways that a filter may take. A way's end is shown to `end`, which says whether to go on; nothing
// is shown for an answer that isn't known.
template <class End>
bool follow(std::span<const sock_filter> code, const Data& data, const End& end) {
    constexpr int most_steps = 50'000;
    std::vector<State> ways(1);
    for (int steps = 0; !ways.empty(); ++steps) {
        if (steps == most_steps) return end(Word());
        State& state = ways.back();
        if (state.at >= code.size()) {
            ways.pop_back();
            if (!end(Word(SECCOMP_RET_KILL_PROCESS))) return false;
            continue;
        }
        const auto& each = code[state.at++];
        const auto operation = static_cast<std::uint16_t>(BPF_OP(each.code));
        switch (BPF_CLASS(each.code)) {
            case BPF_RET: {
                const Word answer = BPF_RVAL(each.code) == BPF_A ? state.a : Word(each.k);
                ways.pop_back();
                if (!end(answer)) return false;
                break;
            }
            case BPF_JMP: {
                const Word other = operand(state, each);
                if (operation == BPF_JA) {
                    state.at += each.k;
                } else if (state.a && other) {
                    state.at += holds(operation, *state.a, *other) ? each.jt : each.jf;
                } else {
                    State second = state;
                    state.at += each.jt;
                    second.at += each.jf;
                    if (each.jt != each.jf) ways.push_back(second);
                }
                break;
            }
            case BPF_LD:
                state.a = load(state, each, data);
                break;
            case BPF_LDX:
                state.x = load(state, each, data);
                break;
            case BPF_ST:
                state.memory[each.k % BPF_MEMWORDS] = state.a;
                break;
            case BPF_STX:
                state.memory[each.k % BPF_MEMWORDS] = state.x;
                break;
            case BPF_ALU: {
                const Word other = operand(state, each);
                // the kernel's program ends with 0 where it would divide by it
                if (operation == BPF_DIV && (!other || *other == 0)) {
                    if (!end(Word(SECCOMP_RET_KILL_THREAD))) return false;
                    if (other) {
                        ways.pop_back();
                        break;
                    }
                }
                state.a = computed(operation, state.a, other);
                break;
            }
            default:  // BPF_MISC
                if (BPF_MISCOP(each.code) == BPF_TAX)
                    state.x = state.a;
                else
                    state.a = state.x;
        }
    }
    return true;
}

}  // namespace

std::uint32_t evaluate(std::span<const sock_filter> code, const seccomp_data& data) {
    std::array<std::uint32_t, sizeof data / sizeof(std::uint32_t)> words = {};
    std::memcpy(words.data(), &data, sizeof data);
    Data known;
    std::ranges::copy(words, known.begin());
    std::uint32_t result = SECCOMP_RET_KILL_PROCESS;
    (void)follow(code, known, [&](Word answer) {
        result = answer.value_or(SECCOMP_RET_KILL_PROCESS);
        return false;
    });
    return result;
}

bool allows(std::span<const sock_filter> code, const Call& call) {
    Data data;  // the instruction's address stays unknown
    data[offsetof(seccomp_data, nr) / sizeof(std::uint32_t)] = static_cast<std::uint32_t>(call.number);
    data[offsetof(seccomp_data, arch) / sizeof(std::uint32_t)] = AUDIT_ARCH_X86_64;
    std::size_t word = offsetof(seccomp_data, args) / sizeof(std::uint32_t);
    for (const auto& argument : call.arguments) {
        if (argument.known) {
            data[word] = static_cast<std::uint32_t>(argument.value);
            data[word + 1] = static_cast<std::uint32_t>(argument.value >> 32);
        }
        word += 2;
    }
    return follow(code, data, [](Word answer) {
        const auto action = answer.value_or(SECCOMP_RET_KILL_PROCESS) & SECCOMP_RET_ACTION_FULL;
        return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
    });
}

bool may_notify(std::span<const sock_filter> code) {
    return std::ranges::any_of(code, [](const sock_filter& each) {
        if (BPF_CLASS(each.code) != BPF_RET) return false;
        return BPF_RVAL(each.code) == BPF_A || (each.k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF;
    });
}

Step next_step(std::span<const Code> before, bool log, bool together) {
    const std::uint64_t flags = log ? SECCOMP_FILTER_FLAG_LOG : 0;
    const std::array ways = {
        Step{Way::synchronized,
             {"seccomp", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_TSYNC, any}}},
        Step{Way::seccomp, {"seccomp", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, flags, any}}},
        Step{Way::prctl, {"prctl", SYS_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER, any}}},
    };
    for (const auto& each : ways) {
        if (each.way == Way::synchronized && !together) continue;
        if (each.way == Way::prctl && log) continue;  // it has no flags
        if (std::ranges::all_of(before, [&](const Code& code) { return allows(code, each.call); }))
            return each;
    }
    return {};
}

}  // namespace cairn::seccomp
