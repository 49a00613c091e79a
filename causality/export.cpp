#include "causality/export.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causality/order.h"
#include "common/json_text.h"

namespace cairn::causality {
namespace {

struct ExportCloser {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};

// A new file, or standard output.
class ExportFile {
  public:
    [[nodiscard]] static Result<ExportFile> create(const std::string& path) {
        ExportFile made;
        made.path_ = path;
        if (path != "-") made.owned_.reset(std::fopen(path.c_str(), "wbxe"));
        made.file_ = path == "-" ? stdout : made.owned_.get();
        if (made.file_ == nullptr) return fail_errno("creating {}", path);
        return made;
    }
    void put(const std::string& text) { std::fputs(text.c_str(), file_); }
    [[nodiscard]] Result<> finish() {
        if (std::fflush(file_) != 0 || std::ferror(file_) != 0) return fail_errno("writing {}", path_);
        return {};
    }

  private:
    std::string path_;
    std::unique_ptr<std::FILE, ExportCloser> owned_;
    std::FILE* file_ = nullptr;
};

std::string export_name(const Computation& c, Index e) {
    const std::string& call = c.place(e).call;
    return call.empty() ? name(c.event(e).kind) : call;
}

using nlohmann::ordered_json;

// Microseconds, with as many digits as there are.
double microseconds(std::int64_t time, std::int64_t begin) {
    return static_cast<double>(time - begin) / 1000;
}

ordered_json perfetto_slice(const Computation& c, Index e, std::int64_t begin) {
    const Event& event = c.event(e);
    ordered_json slice = {{"ph", "X"},
                          {"name", export_name(c, e)},
                          {"cat", name(event.kind)},
                          {"pid", 0},
                          {"tid", c.process_of(e)},
                          {"ts", microseconds(event.call_begin(), begin)},
                          {"dur", static_cast<double>(event.took) / 1000}};
    ordered_json& args = slice["args"];
    args["event"] = fmt::format("{}:{}", c.process_of(e), c.id(e).position);
    args["what"] = describe(event);
    if (event.place != 0) args["at"] = describe(c.place(e));
    if (event.bytes != unknown_bytes) args["bytes"] = event.bytes;
    if (event.has(Flag::nondeterministic)) args["nondeterministic"] = true;
    return slice;
}

// A flow belongs to the slice that is there at its time, and a slice isn't there at its end.
std::int64_t within_slice(const Event& event) {
    return !event.timed_at_call() && event.call_begin() < event.time ? event.time - 1 : event.time;
}

}  // namespace

Result<> write_perfetto(const Computation& c, const std::string& path) {
    auto file = TRY(ExportFile::create(path));
    std::int64_t begin = c.size() == 0 ? 0 : INT64_MAX;
    for (Index e = 0; e < c.size(); ++e) begin = std::min(begin, c.event(e).call_begin());
    file.put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (Process p = 0; p < c.processes(); ++p) {
        const ordered_json row = {{"ph", "M"},
                                  {"name", "thread_name"},
                                  {"pid", 0},
                                  {"tid", p},
                                  {"args", {{"name", fmt::format("rank {}", p)}}}};
        file.put((p == 0 ? "" : ",\n") + json_text(row));
    }
    const auto flow = [&](const char* phase, const char* what, Index at, const std::string& id) {
        ordered_json out = {{"ph", phase},
                            {"name", what},
                            {"cat", what},
                            {"id", id},
                            {"pid", 0},
                            {"tid", c.process_of(at)},
                            {"ts", microseconds(within_slice(c.event(at)), begin)}};
        if (phase[0] == 'f') out["bp"] = "e";
        file.put(",\n" + json_text(out));
    };
    for (Index e = 0; e < c.size(); ++e) {
        file.put(",\n" + json_text(perfetto_slice(c, e, begin)));
        if (c.event(e).kind == Kind::receive && c.partner(e) != none) {
            const std::string id = fmt::format("m{}", c.partner(e));
            flow("s", "message", c.partner(e), id);
            flow("f", "message", e, id);
        }
    }
    file.put("\n]}\n");
    return file.finish();
}

Result<> write_shiviz(const Computation& c, const std::string& path) {
    auto file = TRY(ExportFile::create(path));
    const ClockTable clocks(c);
    std::vector<std::uint32_t> clock(c.processes());
    for (const Index e : c.order()) {
        clocks.clock(e, clock);
        std::string text = fmt::format("rank{} {{", c.process_of(e));
        bool first = true;
        for (Process p = 0; p < c.processes(); ++p) {
            if (clock[p] == 0) continue;
            text += fmt::format("{}\"rank{}\":{}", first ? "" : ",", p, clock[p]);
            first = false;
        }
        // One line, whatever names the source has.
        std::string what = describe(c.event(e));
        if (c.event(e).place != 0) what += "; " + describe(c.place(e));
        for (char& letter : what)
            if (letter == '\n' || letter == '\r') letter = ' ';
        file.put(fmt::format("{}}}\n{}\n", text, what));
    }
    return file.finish();
}

}  // namespace cairn::causality
