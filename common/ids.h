// The two numbers that a process, thread, process group or session goes by, a type for each.
//
// KernelId: what the kernel calls it in our pid namespace. System calls, /proc and ptrace take and give
// these; a pid_t of ours is always one. ProgramId: what the session's programs call it. Schemas, manifests,
// images and messages for people have these. They are one number until a restart can't give a process its old
// one, so what takes one for the other works nearly always. That is why neither becomes an integer or the
// other by itself:
//  - the map of a region says which is whose (kernel_id() and program_id(), common/region_ops.h), and what is
//    made of it: ToProgram in a capture, ToKernel in a restart;
//  - same_number() compares them, and the functions named ..._of_same_number() are for who knows that a
//    process has one number in both.
//
// Messages show the number (common/ids_text.h). Used by the hijack library too: no allocation, no libstdc++
// symbols. Trivially copyable, and as big as a pid_t.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace cairn {

template <class Space>
class Id {
  public:
    constexpr Id() = default;
    constexpr explicit Id(std::int32_t number) : number_(number) {}

    [[nodiscard]] constexpr std::int32_t number() const { return number_; }
    // Whether it is somebody's: 0 is nobody's, or the caller's own, and below are errors.
    [[nodiscard]] constexpr bool known() const { return number_ > 0; }

    friend constexpr auto operator<=>(const Id&, const Id&) = default;

  private:
    std::int32_t number_ = 0;
};

using KernelId = Id<struct KernelSpace>;
using ProgramId = Id<struct ProgramSpace>;

constexpr bool same_number(ProgramId program, KernelId kernel) {
    return program.number() == kernel.number();
}
// What a process is called in the other space if it has one number in both.
constexpr ProgramId program_id_of_same_number(KernelId kernel) {
    return ProgramId(kernel.number());
}
constexpr KernelId kernel_id_of_same_number(ProgramId program) {
    return KernelId(program.number());
}

}  // namespace cairn

template <class Space>
struct std::hash<cairn::Id<Space>> {
    std::size_t operator()(cairn::Id<Space> id) const { return static_cast<std::size_t>(id.number()); }
};
