#include "cli/inspect_stacks.h"

#include <nlohmann/json.hpp>

#include "cli/inspect_text.h"

namespace cairn::inspect {

std::string frames_text(const Stack& stack) {
    std::string text;
    std::size_t number = 0;
    for (const Frame& frame : stack.frames) {
        const auto where =
            frame.python ? fmt::format("{:18}", "Python") : fmt::format("{:#018x}", frame.pc.value());
        text += fmt::format("  #{:<3}{} in {}", number++, where,
                            frame.function.empty() ? "??" : printable(frame.function));
        if (!frame.file.empty())
            text += fmt::format(" at {}:{}", printable(frame.file), frame.line);
        else if (!frame.module.empty())
            text += fmt::format(" from {}", printable(frame.module));
        text += frame.inlined ? " (inlined)\n" : "\n";
    }
    if (!stack.broken.empty()) text += fmt::format("  it can't be followed further: {}\n", stack.broken);
    return text;
}

nlohmann::json thread_json(const Stack& stack) {
    auto frames = nlohmann::json::array();
    for (const Frame& frame : stack.frames)
        frames.push_back({{"pc", frame.pc.value()},
                          {"function", frame.function},
                          {"file", frame.file},
                          {"line", frame.line},
                          {"module", frame.module},
                          {"inlined", frame.inlined},
                          {"python", frame.python}});
    return {{"tid", stack.tid.number()},
            {"name", stack.name},
            {"doing", stack.doing},
            {"broken", stack.broken},
            {"frames", std::move(frames)}};
}

std::string as_text(const LoadedProcess& process, const std::vector<Stack>& stacks) {
    std::string text = fmt::format("process {} ({}): {}\n", process.process.pid,
                                   printable(process.process.name), printable(process.command()));
    for (const Stack& stack : stacks)
        text += fmt::format(" thread {} ({}), {}\n", stack.tid, printable(stack.name), stack.doing) +
                frames_text(stack);
    return text;
}

nlohmann::json as_json(const LoadedProcess& process, const std::vector<Stack>& stacks) {
    auto threads = nlohmann::json::array();
    for (const Stack& stack : stacks) threads.push_back(thread_json(stack));
    return {{"pid", process.process.pid.number()},
            {"name", process.process.name},
            {"command", process.command()},
            {"threads", std::move(threads)}};
}

}  // namespace cairn::inspect
