#include "common/channel/key.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"

namespace cairn {
namespace {

Result<> prepare() {
    if (::sodium_init() < 0) return fail("libsodium can't be used: no source of random numbers");
    return {};
}

}  // namespace

Result<Key> Key::random() {
    CHECK_OK(prepare());
    Key key;
    ::randombytes_buf(key.bytes.data(), key.bytes.size());
    return key;
}

std::string Key::text() const {
    char text[65];
    ::sodium_bin2hex(text, sizeof text, bytes.data(), bytes.size());
    return text;
}

Result<Key> Key::parse(std::string_view text, const std::string& where) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.remove_suffix(1);
    Key key;
    std::size_t length = 0;
    const char* end = nullptr;
    const bool read = ::sodium_hex2bin(key.bytes.data(), key.bytes.size(), text.data(), text.size(), nullptr,
                                       &length, &end) == 0;
    if (!read || length != key.bytes.size() || end != text.data() + text.size())
        return fail_code(ExitCode::refused,
                         "{}: not a key: 64 hexadecimal digits, as the root coordinator writes them", where);
    return key;
}

Result<Key> Key::load(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd) return fail_errno("key {}", path);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return fail_errno("key {}", path);
    if ((info.st_mode & 077) != 0)
        return fail_code(ExitCode::refused, "key {}: others may read it: chmod 600", path);
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
        return fail_code(ExitCode::refused, "key {}: belongs to user {}, not to you", path, info.st_uid);
    char text[256];
    const ssize_t size = ::read(fd.get(), text, sizeof text);
    if (size < 0) return fail_errno("key {}", path);
    return parse({text, static_cast<std::size_t>(size)}, "key " + path);
}

Result<Key> Key::load_or_make(const std::string& path) {
    if (::access(path.c_str(), F_OK) == 0) return load(path);
    auto key = random();
    if (!key) return key;
    const std::string line = key->text() + "\n";
    const std::string fresh = path + ".new";
    {
        ::unlink(fresh.c_str());
        const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!fd) return fail_errno("key {}", fresh);
        if (::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
            return fail_errno("key {}", fresh);
    }
    if (::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno("key {}", path);
    return key;
}

}  // namespace cairn
