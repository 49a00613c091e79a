// What is seen of living processes, for people and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/inspect_text.h"
#include "cli/stacks/living.h"

namespace cairn::stacks {
namespace {

using inspect::Frame;
using inspect::Table;

std::string command_of(const wire::Process& member) {
    return member.command.empty() ? "(" + printable(member.comm) + ")" : printable(member.command);
}

// The C library, its loader, and what the kernel maps: where everybody waits.
bool is_everybodys(const Frame& frame) {
    if (frame.module == "[vdso]") return true;
    const std::string name = frame.module.substr(frame.module.rfind('/') + 1);
    return name.starts_with("libc.") || name.starts_with("libc-") || name.starts_with("ld-linux") ||
           name.starts_with("libpthread") || name.starts_with("libcairn");
}

std::string in_words(const Frame& frame) {
    std::string text = printable(frame.function);
    if (!frame.file.empty())
        text += fmt::format(" ({}:{})", printable(frame.file.substr(frame.file.rfind('/') + 1)), frame.line);
    return text;
}

}  // namespace

std::string place_of(const LivingThread& thread) {
    const auto& frames = thread.stack.frames;
    const auto named = [](const Frame& frame) { return !frame.function.empty(); };
    const auto first = std::ranges::find_if(frames, named);
    if (first == frames.end()) return {};
    auto own = std::ranges::find_if(first, frames.end(), &Frame::python);
    if (own == frames.end())
        own = std::ranges::find_if(first, frames.end(),
                                   [&](const Frame& each) { return named(each) && !is_everybodys(each); });
    if (own == frames.end() || own == first) return in_words(*first);
    return printable(first->function) + " < " + in_words(*own);
}

std::string as_text(const LivingProcess& process) {
    const auto& member = process.member;
    std::string text =
        fmt::format("process {}{} ({}): {}\n", member.pid,
                    same_number(member.pid, member.real) ? "" : fmt::format(", really {},", member.real),
                    printable(member.comm), command_of(member));
    for (const auto& thread : process.threads) {
        text += fmt::format(" thread {} ({}), {}", thread.stack.tid, printable(thread.stack.name),
                            thread.stack.doing);
        if (!thread.wait_channel.empty())
            text += fmt::format(", in the kernel's {}", printable(thread.wait_channel));
        text += "\n" + frames_text(thread.stack);
    }
    if (!process.problem.empty())
        text += fmt::format(" {}: {}\n", process.threads.empty() ? "no stacks" : "not all is known",
                            printable(process.problem));
    return text;
}

nlohmann::json as_json(const LivingProcess& process) {
    const auto& member = process.member;
    auto threads = nlohmann::json::array();
    for (const auto& thread : process.threads) {
        auto one = thread_json(thread.stack);
        one["real"] = thread.real.number();
        one["state"] = thread.state;
        one["call"] = thread.call;
        one["descriptor"] = thread.descriptor < 0 ? nlohmann::json() : nlohmann::json(thread.descriptor);
        one["object"] = thread.object;
        one["wait_channel"] = thread.wait_channel;
        threads.push_back(std::move(one));
    }
    nlohmann::json whole{{"pid", member.pid.number()},   {"real", member.real.number()},
                         {"name", member.comm},          {"command", member.command},
                         {"problem", process.problem},   {"pause_ns", process.pause_ns},
                         {"threads", std::move(threads)}};
    if (member.host) whole["host"] = *member.host;
    return whole;
}

std::string waits_table(const std::vector<LivingProcess>& processes) {
    using Side = Table::Side;
    Table table("", {Side::right, Side::left, Side::left, Side::left});
    table.row({"PID", "NAME", "WAITS FOR", "IN"});
    for (const auto& process : processes) {
        const auto& member = process.member;
        if (process.threads.empty()) {
            table.row(
                {fmt::format("{}", member.pid), printable(member.comm), "?", printable(process.problem)});
            continue;
        }
        const auto main = std::ranges::find(process.threads, member.real, &LivingThread::real);
        const auto& shown = main == process.threads.end() ? process.threads.front() : *main;
        std::string place = place_of(shown);
        if (place.empty()) place = process.problem.empty() ? "?" : printable(process.problem);
        table.row(
            {fmt::format("{}", member.pid), printable(member.comm), shown.stack.doing, std::move(place)});
    }
    return table.text();
}

}  // namespace cairn::stacks
