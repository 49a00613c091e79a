// Says the steps of a plan in words, for messages and tests.
#include <iterator>

#include "restart/forest/plan.h"

namespace cairn::restart::forest {

std::string describe(const Plan& plan, const Step& step) {
    const auto who = [&] { return plan.processes[static_cast<std::size_t>(step.process)].name; };
    const auto what = [&] { return plan.barriers[static_cast<std::size_t>(step.barrier)].name; };
    switch (step.act) {
        case Act::fork:
            return "fork " + who();
        case Act::setsid:
            return "setsid";
        case Act::new_pids:
            return "make the pid namespace of " + who();
        case Act::join_group:
            return "setpgid to the group of " + who();
        case Act::subreaper:
            return step.on ? "become a subreaper" : "be a subreaper no more";
        case Act::signal:
            return fmt::format("tell that {}", what());
        case Act::wait:
            return fmt::format("wait until {}", what());
        case Act::serve:
            return fmt::format("choose ids until {}", what());
        case Act::reap:
            return "wait for the exit of " + who();
        case Act::see_zombie:
            return "wait until there is a zombie of " + who();
        case Act::exit:
            return "exit";
        case Act::become:
            return "go on as the program";
    }
    return "?";
}

std::string describe(const Plan& plan) {
    std::string text;
    for (const Process& process : plan.processes) {
        fmt::format_to(std::back_inserter(text), "{}\n", process.name);
        for (const Step& step : process.steps)
            fmt::format_to(std::back_inserter(text), "    {}\n", describe(plan, step));
    }
    return text;
}

}  // namespace cairn::restart::forest
