#include "capture/cpu_use.h"

#include <algorithm>
#include <optional>

#include "common/cpu_state.h"
#include "common/linker_room.h"

namespace cairn::capture {
namespace {

constexpr unsigned avx = 2, avx512[] = {5, 6, 7};

// A component that the level's programs have no instructions for, and that holds something.
std::optional<unsigned> used_beyond(const schema::Process& image, CpuLevel level,
                                    std::span<const schema::StateComponent> layout) {
    for (const auto& thread : image.threads)
        for (const auto number : state_in_use(thread.xstate, layout))
            if ((number == avx && level == CpuLevel::v2) ||
                (std::ranges::find(avx512, number) != std::end(avx512) && level <= CpuLevel::v3))
                return number;
    return {};
}

// The highest of theirs by name; "" where one is kept to none.
std::string common_level(const Members& members, std::span<const schema::StateComponent> layout,
                         Reporter& reporter) {
    CpuLevel highest = CpuLevel::v2;
    const bool any = std::ranges::any_of(
        members.all, [](const Member& member) { return member.cpu_level != CpuLevel::host; });
    if (!any) return {};
    for (const auto& member : members.all) {
        const auto& image = member.image;
        if (member.cpu_level == CpuLevel::host)
            reporter.note(
                fmt::format("{} ({}) was executed without the environment by which --cpu keeps programs to a "
                            "level: this checkpoint "
                            "wants a CPU that has all of this one's features",
                            image.pid, image.name));
        const auto beyond = used_beyond(image, member.cpu_level, layout);
        if (beyond)
            reporter.note(
                fmt::format("{} ({}) uses {}, although it was launched with --cpu={}: this checkpoint wants "
                            "a CPU that has all of "
                            "this one's features",
                            image.pid, image.name, state_name(*beyond), name_of(member.cpu_level)));
        highest = std::max(highest, beyond ? CpuLevel::host : member.cpu_level);
    }
    return highest == CpuLevel::host ? std::string() : std::string(name_of(highest));
}

}  // namespace

void describe_cpu_use(const Members& members, schema::Manifest& manifest, Reporter& reporter) {
    manifest.cpu_level = common_level(members, manifest.cpu_state, reporter);
    manifest.linker_room = room_for_everything;
    for (const auto& member : members.all)
        manifest.linker_room = std::min(manifest.linker_room, member.linker_room);
}

}  // namespace cairn::capture
