#include "causality/open_trace.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "causality/lines_file.h"
#include "causality/otf2/otf2.h"
#include "causality/trace_json.h"
#include "causality/trace_reader.h"
#include "causality/trace_writer.h"

namespace cairn::causality {
namespace {

struct Closer {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};
using File = std::unique_ptr<std::FILE, Closer>;

Result<std::string> read_all(const std::string& path, std::size_t most) {
    const bool standard = path == "-";
    const File owned(standard ? nullptr : std::fopen(path.c_str(), "rbe"));
    std::FILE* file = standard ? stdin : owned.get();
    if (file == nullptr) return fail_errno("opening the trace {}", path);
    std::string text;
    while (text.size() < most) {
        const std::size_t before = text.size();
        text.resize(std::min(most, before + (1U << 16)));
        text.resize(before + std::fread(text.data() + before, 1, text.size() - before, file));
        if (text.size() == before) break;
    }
    if (std::ferror(file) != 0) return fail_errno("reading the trace {}", path);
    return text;
}

}  // namespace

Result<std::unique_ptr<TraceSource>> open_trace(std::span<const std::string> paths) {
    if (paths.empty()) return fail_code(ExitCode::usage, "which trace?");
    if (is_otf2(paths[0])) {
        if (paths.size() != 1)
            return fail_code(ExitCode::usage, "{}: an OTF2 trace is read by itself", paths[0]);
        auto trace = TRY(read_otf2(paths[0]));
        return trace;
    }
    if (paths[0] != "-") {
        const auto begin = TRY(read_all(paths[0], sizeof trace_magic));
        if (begin.size() == sizeof trace_magic &&
            std::memcmp(begin.data(), &trace_magic, sizeof trace_magic) == 0) {
            auto reader = TRY(TraceReader::open(paths));
            return reader;
        }
    }
    if (paths.size() != 1)
        return fail_code(ExitCode::usage,
                         "{} is no binary trace; only those may be spread over several files", paths[0]);
    // What can be read from anywhere needs no memory for its events.
    std::error_code ignored;
    if (paths[0] != "-" && std::filesystem::is_regular_file(paths[0], ignored)) {
        auto trace = TRY(LinesFile::open(paths[0]));
        if (!trace->is_mixed()) return trace;
    }
    const File owned(paths[0] == "-" ? nullptr : std::fopen(paths[0].c_str(), "rbe"));
    std::FILE* file = paths[0] == "-" ? stdin : owned.get();
    if (file == nullptr) return fail_errno("opening the trace {}", paths[0]);
    // A line at a time: the text takes many times the memory of what it says.
    TraceLines lines(paths[0]);
    char* line = nullptr;
    std::size_t room = 0;
    Result<> added;
    for (ssize_t size = 0; added && (size = ::getline(&line, &room, file)) >= 0;)
        added = lines.add({line, static_cast<std::size_t>(size)});
    std::free(line);
    if (!added) return std::unexpected(added.error());
    if (std::ferror(file) != 0) return fail_errno("reading the trace {}", paths[0]);
    auto trace = TRY(lines.finish());
    return trace;
}

Result<> write_lines(TraceSource& source, const std::string& path) {
    const File owned(path == "-" ? nullptr : std::fopen(path.c_str(), "wbxe"));
    std::FILE* file = path == "-" ? stdout : owned.get();
    if (file == nullptr) return fail_errno("creating {}", path);
    TraceLine line;
    const auto put = [&] { std::fputs((trace_line(line) + "\n").c_str(), file); };
    line.processes = source.processes();
    put();
    line.what = TraceLine::What::communicator;
    for (const Communicator& each : source.communicators()) {
        line.communicator = each;
        put();
    }
    for (line.process = 0; line.process < source.processes(); ++line.process) {
        if (!source.ended(line.process)) {
            line.what = TraceLine::What::killed;
            put();
        }
        if (const auto& standing = source.standing(line.process)) {
            line.what = TraceLine::What::standing;
            line.standing = *standing;
            line.place = source.places()[standing->event.place];
            put();
        }
        line.what = TraceLine::What::event;
        for (;;) {
            const auto more = TRY(source.next(line.process, line.event));
            if (!more) break;
            if (line.event.place >= source.places().size())
                return fail_code(ExitCode::damaged, "process {}: an event's place is not defined",
                                 line.process);
            line.place = source.places()[line.event.place];
            if (line.event.type >= source.types().size())
                return fail_code(ExitCode::damaged, "process {}: an event's type is not defined",
                                 line.process);
            line.type = source.types()[line.event.type];
            put();
        }
    }
    line.what = TraceLine::What::leak;
    for (const Leak& each : source.leaks()) {
        line.leak = each;
        line.process = each.process;
        line.place = source.places()[each.place];
        put();
    }
    if (std::fflush(file) != 0 || std::ferror(file) != 0) return fail_errno("writing {}", path);
    return {};
}

Result<> write_binary(TraceSource& source, const std::string& path) {
    auto writer = TRY(TraceWriter::create(path, source.processes()));
    for (const Communicator& each : source.communicators()) CHECK_OK(writer.communicator(each));
    std::vector<std::uint32_t> places, types;
    for (Process process = 0; process < source.processes(); ++process) {
        Event event;
        for (;;) {
            const auto more = TRY(source.next(process, event));
            if (!more) break;
            // Places may be defined while the trace is read.
            while (places.size() <= event.place) {
                if (places.size() >= source.places().size())
                    return fail_code(ExitCode::damaged, "process {}: an event's place is not defined",
                                     process);
                const auto number = TRY(writer.place(source.places()[places.size()]));
                places.push_back(number);
            }
            event.place = places[event.place];
            while (types.size() <= event.type) {
                if (types.size() >= source.types().size())
                    return fail_code(ExitCode::damaged, "process {}: an event's type is not defined",
                                     process);
                const auto number = TRY(writer.type(source.types()[types.size()]));
                types.push_back(number);
            }
            event.type = types[event.type];
            CHECK_OK(writer.append(process, event));
        }
        if (auto standing = source.standing(process)) {
            const auto place = TRY(writer.place(source.places()[standing->event.place]));
            standing->event.place = place;
            CHECK_OK(writer.standing(process, *standing));
        }
        CHECK_OK(source.ended(process) ? writer.end(process) : writer.flush());
    }
    for (Leak leak : source.leaks()) {
        const auto place = TRY(writer.place(source.places()[leak.place]));
        leak.place = place;
        CHECK_OK(writer.leak(leak));
    }
    // A process that was killed has no end; the file has one.
    return writer.close_unended();
}

}  // namespace cairn::causality
