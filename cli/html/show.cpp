#include "cli/html/show.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "cli/html/page.h"
#include "cli/inspect_stacks.h"
#include "cli/top/generations.h"
#include "common/fd.h"
#include "common/printable.h"

namespace cairn::inspect {
namespace {

// Of a thousand processes all stacks would take a minute.
constexpr std::chrono::seconds patience_for_stacks{20};

std::vector<PageGeneration> sisters_of(const Checkpoint& checkpoint) {
    std::vector<PageGeneration> generations;
    if (!checkpoint.manifest || checkpoint.folder.empty()) return generations;
    // `latest` is a link into the computation's folder, and doesn't stand in it.
    std::error_code unknown;
    const auto folder = std::filesystem::canonical(checkpoint.folder, unknown);
    if (unknown) return generations;
    const auto computation = folder.parent_path();
    top::Generations all;
    for (const auto& row : all.look(computation.parent_path().string(), computation.filename().string()))
        generations.push_back({row.number, row.bytes, row.taken_at_ns, row.pause_ns, row.total_ns});
    return generations;
}

std::vector<std::string> stacks_in_words(const Checkpoint& checkpoint) {
    const auto until = std::chrono::steady_clock::now() + patience_for_stacks;
    std::vector<std::string> all;
    for (const auto& process : checkpoint.processes) {
        if (std::chrono::steady_clock::now() > until) {
            all.emplace_back("not unwound, because there are so many: cairn inspect --stacks shows all");
            continue;
        }
        const auto stacks = stacks_of(checkpoint, process);
        all.push_back(stacks ? as_text(process, *stacks) : printable(stacks.error().what));
    }
    return all;
}

}  // namespace

Result<> write_page(const Checkpoint& checkpoint, const std::string& file) {
    const std::string text = as_page(checkpoint, sisters_of(checkpoint), stacks_in_words(checkpoint));
    const Fd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!out && errno == EEXIST) return fail_code(ExitCode::refused, "{} is there already", file);
    if (!out) return fail_errno("{}", file);
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t count = ::write(out.get(), text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("{}", file);
        done += static_cast<std::size_t>(count);
    }
    return {};
}

}  // namespace cairn::inspect
