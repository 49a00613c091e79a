#include "causality/lines_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "causality/trace_json.h"

namespace cairn::causality {
namespace {

constexpr std::size_t window_bytes = 64U << 10;

// Whose event it is, if that comes first; else it has to be parsed.
bool begins_with_process(std::string_view text, Process& process) {
    constexpr std::string_view begin = "{\"p\":";
    if (!text.starts_with(begin)) return false;
    text.remove_prefix(begin.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), process);
    return error == std::errc() && end != text.data() + text.size() && *end == ',';
}

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

std::unexpected<Error> LinesFile::refuse(std::uint32_t number, std::string_view why) const {
    return std::unexpected(Error{fmt::format("{}: line {}: {}", path_, number, why), 0, ExitCode::damaged});
}

Result<std::unique_ptr<LinesFile>> LinesFile::open(const std::string& path) {
    std::unique_ptr<LinesFile> trace(new LinesFile);
    trace->path_ = path;
    trace->fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!trace->fd_) return fail_errno("opening the trace {}", path);
    CHECK_OK(trace->scan());
    return trace;
}

Result<> LinesFile::scan() {
    Reader all;
    all.runs.push_back({.offset = 0, .line = 1, .count = UINT32_MAX});
    std::string_view text;
    for (std::uint32_t number = 1;; ++number) {
        const auto more = TRY(next_line(all, text));
        if (!more) break;
        CHECK_OK(note_line(text, all.offset + static_cast<std::uint64_t>(text.data() - all.window.data()),
                           number));
    }
    if (readers_.empty()) return fail_code(ExitCode::damaged, "{}: an empty trace", path_);
    return {};
}

Result<> LinesFile::note_other(TraceLine line, std::uint32_t number) {
    if (line.what == TraceLine::What::communicator) {
        if (!line.communicator.members.empty() && line.communicator.members.back() >= processes())
            return refuse(number, "a member is no process of the trace");
        for (const Communicator& known : communicators_)
            if (known.id == line.communicator.id) {
                if (known.members != line.communicator.members)
                    return refuse(number, "the communicator has other members than before");
                return {};
            }
        communicators_.push_back(std::move(line.communicator));
        return {};
    }
    if (line.process >= processes()) return refuse(number, "the trace has no such process");
    if (line.what == TraceLine::What::killed) {
        readers_[line.process].ended = false;
    } else if (line.what == TraceLine::What::standing) {
        line.standing.event = line.event;
        line.standing.event.place = place(line.place);
        readers_[line.process].standing = std::move(line.standing);
    } else {
        line.leak.place = place(line.place);
        leaks_.push_back(line.leak);
    }
    return {};
}

Result<> LinesFile::note_line(std::string_view text, std::uint64_t offset, std::uint32_t number) {
    if (is_blank(text)) return {};
    Process process = 0;
    bool event = begins_with_process(text, process);
    if (!event || readers_.empty()) {
        auto line = parse_trace_line(text);
        if (!line) return refuse(number, line.error().what);
        if ((line->what == TraceLine::What::header) != readers_.empty())
            return refuse(number, readers_.empty()
                                      ? "the first line is {\"cairn-trace\": 1, \"processes\": N}"
                                      : "a second header");
        event = line->what == TraceLine::What::event;
        process = line->process;
        if (line->what == TraceLine::What::header) {
            readers_.resize(line->processes);
            return {};
        }
        if (!event) return note_other(std::move(*line), number);
    }
    if (process >= processes()) return refuse(number, "the trace has no such process");
    Reader& reader = readers_[process];
    ++lines_;
    if (!reader.runs.empty() && reader.runs.back().line + reader.runs.back().count == number) {
        ++reader.runs.back().count;
    } else {
        ++runs_;
        reader.runs.push_back({.offset = offset, .line = number, .count = 1});
    }
    return {};
}

// The text is good until the next call for this reader.
Result<bool> LinesFile::next_line(Reader& reader, std::string_view& line) {
    if (reader.run < reader.runs.size() && reader.read == reader.runs[reader.run].count) {
        ++reader.run;
        reader.read = 0;
    }
    if (reader.run == reader.runs.size()) return false;
    if (reader.read == 0) {
        const std::uint64_t begin = reader.runs[reader.run].offset;
        if (begin >= reader.offset && begin - reader.offset <= reader.window.size()) {
            reader.at = static_cast<std::size_t>(begin - reader.offset);
        } else {
            reader.window.clear();
            reader.offset = begin;
            reader.at = 0;
        }
    }
    std::size_t end = reader.window.find('\n', reader.at);
    while (end == std::string::npos) {
        reader.window.erase(0, reader.at);
        reader.offset += reader.at;
        reader.at = 0;
        const std::size_t before = reader.window.size();
        reader.window.resize(before + window_bytes);
        const ssize_t size = ::pread(fd_.get(), reader.window.data() + before, window_bytes,
                                     static_cast<off_t>(reader.offset + before));
        reader.window.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        if (size < 0) return fail_errno("reading the trace {}", path_);
        if (size == 0) break;
        end = reader.window.find('\n', before);
    }
    if (end == std::string::npos) end = reader.window.size();
    if (end == reader.at && reader.at == reader.window.size()) return false;
    line = std::string_view(reader.window).substr(reader.at, end - reader.at);
    reader.at = std::min(end + 1, reader.window.size());
    ++reader.read;
    return true;
}

Result<bool> LinesFile::next(Process process, Event& event) {
    Reader& reader = readers_[process];
    std::string_view text;
    const auto more = TRY(next_line(reader, text));
    if (!more) return false;
    const std::uint32_t number = reader.runs[reader.run].line + reader.read - 1;
    auto line = parse_trace_line(text);
    if (!line) return refuse(number, line.error().what);
    if (line->what != TraceLine::What::event || line->process != process)
        return refuse(number, "it says twice whose event it is");
    event = line->event;
    event.place = place(line->place);
    event.type = type(line->type);
    return true;
}

std::uint32_t LinesFile::place(const Place& place) {
    // A loop has few.
    for (const auto& [known, number] : recent_)
        if (known == place) return number;
    const std::uint32_t number = number_of(place);
    recent_[next_recent_++ % recent_.size()] = {place, number};
    return number;
}

std::uint32_t LinesFile::number_of(const Place& place) {
    const auto [found, is_new] = numbers_.try_emplace(
        fmt::format("{}\n{}\n{}\n{}", place.call, place.function, place.file, place.line), 0);
    if (is_new && place != Place()) {
        found->second = static_cast<std::uint32_t>(places_.size());
        places_.push_back(place);
    }
    return found->second;
}

std::uint32_t LinesFile::type(const std::string& name) {
    if (name.empty()) return 0;
    const auto [found, is_new] = type_numbers_.try_emplace(name, static_cast<std::uint32_t>(types_.size()));
    if (is_new) types_.push_back(name);
    return found->second;
}

}  // namespace cairn::causality
