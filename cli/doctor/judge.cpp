// From what was seen to what it means: the rule that most probes follow.
#include <array>

#include "cli/doctor/probe.h"

namespace cairn::doctor {

Line judge(const Probe& probe, const Observation& seen, const Setting& setting) {
    Line line{.group = probe.group, .name = std::string(probe.name)};
    if (seen.worked()) {
        line.found = seen.said.empty() ? "works" : seen.said;
    } else {
        line.state = probe.otherwise;
        line.needed = probe.needed;
        line.found = seen.why();
        line.meaning = probe.meaning;
        line.remedy = probe.remedy;
    }
    // Where a filter kills the doctor's process it would kill cairn's, or the program's, as well.
    if (seen.killed()) {
        line.state = State::missing;
        line.needed = true;
        line.meaning = line.meaning.empty() ? "a process of cairn's, or a program, would be killed as well"
                                            : line.meaning + "; who tries it is killed";
        line.remedy =
            "start this shell (the container, the service) with a seccomp filter that answers EPERM or "
            "ENOSYS";
    }
    if (probe.refine != nullptr) probe.refine(line, seen, setting);
    if (seen.late() && line.state == State::missing)
        line.remedy = "if the machine is only busy: cairn doctor --timeout 20";
    if (line.state != State::missing) line.needed = false;
    return line;
}

const Probe* find_probe(std::string_view name) {
    for (const auto probes : {container_probes(), checkpoint_probes(), socket_probes(), restart_probes(),
                              speed_probes(), storage_probes(), limit_probes(), rehearsal_probes()})
        for (const Probe& probe : probes)
            if (probe.name == name) return &probe;
    return nullptr;
}

}  // namespace cairn::doctor
