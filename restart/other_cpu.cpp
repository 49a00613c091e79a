#include "restart/other_cpu.h"

#include <algorithm>
#include <cstring>

#include "common/cpu_features.h"
#include "common/linker_room.h"
#include "restart/stacks.h"

namespace cairn::restart {
namespace {

// As linker_state_here(), of another CPU.
std::size_t linker_state(std::span<const StateComponent> layout) {
    std::vector<StateComponent> stored;
    for (const auto& component : layout)
        if (std::ranges::find(stored_by_linker, component.number) != std::end(stored_by_linker))
            stored.push_back(component);
    return size_of_state(stored);
}

bool has(const std::vector<std::string>& features, std::string_view name) {
    return std::ranges::find(features, name) != features.end();
}

std::vector<std::string> missing_of(const std::vector<std::string>& wanted, const Cpu& here) {
    std::vector<std::string> missing;
    for (const auto& name : wanted)
        if (!has(here.features, name)) missing.push_back(name);
    return missing;
}

// "; ..." on what would have helped, or nothing.
std::string advice(const Cpu& here) {
    for (const auto level : {CpuLevel::v4, CpuLevel::v3, CpuLevel::v2}) {
        if (!missing_of(features_of(level), here).empty()) continue;
        return fmt::format("; a program that is launched with --cpu={} can go on here", name_of(level));
    }
    return {};
}

bool same_layout(std::span<const StateComponent> one, std::span<const StateComponent> other) {
    return std::ranges::equal(one, other, [](const auto& a, const auto& b) {
        return a.number == b.number && a.offset == b.offset && a.size == b.size;
    });
}

Error cannot_hold(const schema::Process& process, const schema::Thread& thread, std::string_view what) {
    return {fmt::format("process {} ({}): thread {} {}", process.pid, process.name, thread.tid, what), 0,
            ExitCode::refused};
}

// What the kernel lays on the stack for a signal's handler to return to: the registers, with this behind
// the legacy area (struct _fpx_sw_bytes, asm/sigcontext.h).
struct SignalState {
    std::uint32_t magic, extended_size;
    std::uint64_t features;
    std::uint32_t size;
};
constexpr std::uint32_t first_magic = 0x46505853, second_magic = 0x46505845;
constexpr std::size_t signal_state_at = 464, signal_state_alignment = 64;

// The area of a signal's frame at `at`; empty if there is none. The second magic stands behind it.
StateBytes signal_area(std::span<const std::byte> bytes, std::size_t at) {
    SignalState state;
    if (at + signal_state_at + sizeof state > bytes.size()) return {};
    std::memcpy(&state, bytes.data() + at + signal_state_at, sizeof state);
    constexpr std::uint32_t least = 576, most = 1U << 16;
    if (state.magic != first_magic || state.size < least || state.size > most ||
        state.extended_size < state.size || at + state.size + sizeof second_magic > bytes.size())
        return {};
    std::uint32_t behind = 0;
    std::memcpy(&behind, bytes.data() + at + state.size, sizeof behind);
    if (behind != second_magic) return {};
    StateBytes area(state.size);
    std::memcpy(area.data(), bytes.data() + at, area.size());
    return area;
}

// The kernel takes such an area as it is, or, where it is larger than this CPU's, the legacy area alone.
bool returns_well(const StateBytes& area, std::span<const StateComponent> from, const Cpu& here) {
    const auto used = state_in_use(area, from);
    return std::ranges::all_of(used, [&](unsigned number) {
        const auto there = std::ranges::find(from, number, &StateComponent::number);
        const auto its = std::ranges::find(here.state, number, &StateComponent::number);
        constexpr unsigned protection_keys = 9;  // they are as the kernel sets them for every thread
        return number == protection_keys ||
               (its != here.state.end() && its->offset == there->offset && its->size == there->size &&
                area.size() <= size_of_state(here.state));
    });
}

Result<> check_signal_frames(const schema::Process& process, const schema::Thread& thread, PageReader& pages,
                             std::span<const StateComponent> from, const Cpu& here) {
    const bool stuck =
        TRY(on_stack(process, thread, pages, [&](std::span<const std::byte> bytes, std::size_t first) {
            for (auto at =
                     (first + signal_state_alignment - 1) / signal_state_alignment * signal_state_alignment;
                 at < bytes.size(); at += signal_state_alignment)
                if (const auto area = signal_area(bytes, at);
                    !area.empty() && !returns_well(area, from, here))
                    return true;
            return false;
        }));
    if (stuck)
        return std::unexpected(
            cannot_hold(process, thread,
                        "is in a signal's handler, and what it returns to has registers in use that this CPU "
                        "keeps elsewhere or hasn't "
                        "got: restart it on a CPU like the checkpoint's, or from another generation"));
    return {};
}

Result<> fit_process(schema::Process& process, const ImageReader& reader, const schema::Manifest& manifest,
                     const Cpu& here) {
    const Fd image = TRY(reader.open_again());
    PageReader pages(reader.page_data(image.get()));
    for (auto& thread : process.threads) {
        if (thread.leader_dead) continue;
        auto fitted = lay_out_state(thread.xstate, manifest.cpu_state, here.state);
        if (!fitted)
            return std::unexpected(cannot_hold(
                process, thread,
                fmt::format("has {} in use, which this CPU hasn't got", state_name(fitted.error()))));
        thread.xstate = std::move(*fitted);
        thread.xstate_size.reset();
        CHECK_OK(check_signal_frames(process, thread, pages, manifest.cpu_state, here));
    }
    return {};
}

// An older cairn hasn't written down where the registers lie.
Result<> check_sizes(const Computation& computation, const Cpu& here) {
    for (const auto i : computation.living)
        for (const auto& thread : computation.processes[i].threads)
            if (!thread.leader_dead && thread.xstate.size() != size_of_state(here.state))
                return std::unexpected(cannot_hold(
                    computation.processes[i], thread,
                    fmt::format(
                        "has registers of {} bytes, and this CPU of {}: the checkpoint was taken by an "
                        "older cairn, and can be restarted on a CPU like its own only",
                        thread.xstate.size(), size_of_state(here.state))));
    return {};
}

}  // namespace

Cpu this_cpu() {
    return {cpu_features(), cpu_state_layout()};
}

Result<> judge_cpu(const schema::Manifest& manifest, const Cpu& here, std::vector<std::string>& notes) {
    const auto level = cpu_level(manifest.cpu_level);
    auto missing = missing_of(known_cpu_features(manifest.cpu_flags), here);
    std::vector<std::string> beyond;
    if (level && *level != CpuLevel::host) {
        const auto kept = features_of(*level);
        const auto first =
            std::ranges::stable_partition(missing, [&](const auto& name) { return has(kept, name); });
        beyond.assign(first.begin(), first.end());
        missing.erase(first.begin(), first.end());
    }
    if (!missing.empty())
        return fail_code(ExitCode::refused, "this CPU lacks what {} had: {}{}", manifest.cpu_model,
                         fmt::join(missing, " "), advice(here));
    if (const auto needed = linker_state(here.state);
        manifest.linker_room != 0 && needed > manifest.linker_room)
        return fail_code(
            ExitCode::refused,
            "this CPU's registers take {} bytes, and the dynamic linker of the programs, which were "
            "executed on another one, has room for {} where it binds functions lazily: it would write over "
            "their stacks. Restart them on a CPU with fewer registers, such as {}",
            needed, manifest.linker_room, manifest.cpu_model);
    if (!beyond.empty())
        notes.push_back(fmt::format(
            "the programs were launched with --cpu={} on {}; this CPU also lacks {}, which only a program "
            "could use that asks the processor by itself",
            manifest.cpu_level, manifest.cpu_model, fmt::join(beyond, " ")));
    return {};
}

Result<> fit_registers(Computation& computation, const Cpu& here) {
    const auto& manifest = computation.manifest;
    if (manifest.cpu_state.empty()) return check_sizes(computation, here);
    if (same_layout(manifest.cpu_state, here.state)) return {};
    for (const auto i : computation.living)
        CHECK_OK(fit_process(computation.processes[i], computation.images[i], manifest, here));
    return {};
}

}  // namespace cairn::restart
