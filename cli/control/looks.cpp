#include "cli/control/looks.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "cli/job/commands.h"
#include "common/fd.h"
#include "common/image/manifest.h"
#include "common/layout.h"

namespace cairn::control {

Result<std::string> take_looks(const std::vector<pid_t>& programs, const std::string& region) {
    if (programs.empty()) return fail_code(ExitCode::refused, "there are no programs to look at");
    const std::string witness = own_program("cairn-witness");
    if (witness.empty())
        return fail("cairn-witness isn't where cairn's programs are (scripts/build builds it)");
    job::Words words{witness, "--region", region, "--looks", "3"};
    for (const pid_t pid : programs) words.push_back(std::to_string(pid));
    // It reads all memory of the programs, three times.
    constexpr std::chrono::seconds patience{600};
    return job::ask_command(words, patience);
}

Result<> keep_looks(const std::string& checkpoint, const std::string& looks) {
    const std::string path = checkpoint + "/" + looks_file;
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("{}", path);
    for (std::size_t done = 0; done < looks.size();) {
        const ssize_t count = ::write(file.get(), looks.data() + done, looks.size() - done);
        if (count < 0) {
            const auto error = fail_errno("{}", path);
            ::unlink(path.c_str());
            return error;
        }
        done += static_cast<std::size_t>(count);
    }
    return {};
}

}  // namespace cairn::control
