#include "common/seccomp.h"

#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace cairn::seccomp {
namespace {

// One run of a filter. Jumps lead forward only, so it ends.
class Machine {
  public:
    explicit Machine(const seccomp_data& data) : data_(data) {}

    std::uint32_t run(std::span<const sock_filter> code) {
        for (std::size_t at = 0; at < code.size(); ++at) {
            const auto& each = code[at];
            switch (BPF_CLASS(each.code)) {
                case BPF_RET:
                    return BPF_RVAL(each.code) == BPF_A ? a_ : each.k;
                case BPF_JMP:
                    at += jump(each);
                    break;
                case BPF_LD:
                    a_ = load(each);
                    break;
                case BPF_LDX:
                    x_ = load(each);
                    break;
                case BPF_ST:
                    memory_[each.k % BPF_MEMWORDS] = a_;
                    break;
                case BPF_STX:
                    memory_[each.k % BPF_MEMWORDS] = x_;
                    break;
                case BPF_ALU:
                    // who divides by zero is refused by the filter (sk_chk_filter, and 0 at run time)
                    if (!compute(each)) return SECCOMP_RET_KILL_THREAD;
                    break;
                case BPF_MISC:
                    if (BPF_MISCOP(each.code) == BPF_TAX)
                        x_ = a_;
                    else
                        a_ = x_;
                    break;
                default:
                    return SECCOMP_RET_KILL_PROCESS;
            }
        }
        return SECCOMP_RET_KILL_PROCESS;
    }

  private:
    [[nodiscard]] std::uint32_t operand(const sock_filter& each) const {
        return BPF_SRC(each.code) == BPF_X ? x_ : each.k;
    }

    [[nodiscard]] std::size_t jump(const sock_filter& each) const {
        const std::uint32_t other = operand(each);
        switch (BPF_OP(each.code)) {
            case BPF_JA:
                return each.k;
            case BPF_JEQ:
                return a_ == other ? each.jt : each.jf;
            case BPF_JGT:
                return a_ > other ? each.jt : each.jf;
            case BPF_JGE:
                return a_ >= other ? each.jt : each.jf;
            default:  // BPF_JSET
                return (a_ & other) != 0 ? each.jt : each.jf;
        }
    }

    [[nodiscard]] std::uint32_t load(const sock_filter& each) const {
        switch (BPF_MODE(each.code)) {
            case BPF_IMM:
                return each.k;
            case BPF_MEM:
                return memory_[each.k % BPF_MEMWORDS];
            case BPF_LEN:
                return sizeof data_;
            default:  // BPF_ABS: a word, and within (seccomp_check_filter)
                std::uint32_t word = 0;
                if (each.k <= sizeof data_ - sizeof word)
                    std::memcpy(&word, reinterpret_cast<const char*>(&data_) + each.k, sizeof word);
                return word;
        }
    }

    bool compute(const sock_filter& each) {
        const std::uint32_t other = operand(each);
        constexpr std::uint32_t bits = 31;
        switch (BPF_OP(each.code)) {
            case BPF_ADD:
                a_ += other;
                break;
            case BPF_SUB:
                a_ -= other;
                break;
            case BPF_MUL:
                a_ *= other;
                break;
            case BPF_DIV:
                if (other == 0) return false;
                a_ /= other;
                break;
            case BPF_OR:
                a_ |= other;
                break;
            case BPF_AND:
                a_ &= other;
                break;
            case BPF_XOR:
                a_ ^= other;
                break;
            case BPF_LSH:
                a_ <<= other & bits;
                break;
            case BPF_RSH:
                a_ >>= other & bits;
                break;
            case BPF_NEG:
                a_ = -a_;
                break;
            default:  // BPF_MOD is not for seccomp
                return false;
        }
        return true;
    }

    const seccomp_data& data_;
    std::uint32_t a_ = 0, x_ = 0;
    std::array<std::uint32_t, BPF_MEMWORDS> memory_ = {};
};

}  // namespace

std::uint32_t evaluate(std::span<const sock_filter> code, const seccomp_data& data) {
    return Machine(data).run(code);
}

bool allows(std::span<const sock_filter> code, const Call& call, std::uint64_t instruction) {
    seccomp_data data = {};
    data.nr = static_cast<int>(call.number);
    data.arch = AUDIT_ARCH_X86_64;
    data.instruction_pointer = instruction;
    std::ranges::copy(call.arguments, data.args);
    const auto action = evaluate(code, data) & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

bool may_notify(std::span<const sock_filter> code) {
    return std::ranges::any_of(code, [](const sock_filter& each) {
        if (BPF_CLASS(each.code) != BPF_RET) return false;
        return BPF_RVAL(each.code) == BPF_A || (each.k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF;
    });
}

Step next_step(std::span<const Code> before, bool log, bool together, std::uint64_t at,
               std::uint64_t instruction) {
    const std::uint64_t flags = log ? SECCOMP_FILTER_FLAG_LOG : 0;
    const std::array ways = {
        Step{Way::synchronized,
             {"seccomp", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_TSYNC, at}}},
        Step{Way::seccomp, {"seccomp", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, flags, at}}},
        Step{Way::prctl, {"prctl", SYS_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER, at}}},
    };
    for (const auto& each : ways) {
        if (each.way == Way::synchronized && !together) continue;
        if (each.way == Way::prctl && log) continue;  // it has no flags
        if (std::ranges::all_of(before,
                                [&](const Code& code) { return allows(code, each.call, instruction); }))
            return each;
    }
    return {};
}

}  // namespace cairn::seccomp
