#include "mpi/debug/image_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "common/human.h"

namespace cairn::mpi::debug {
namespace {

namespace fs = std::filesystem;

constexpr const char* unfinished = ".new.";  // and the debugger's pid

std::string text_of_file(const std::string& path) {
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::uint64_t bytes_below(const std::string& folder) {
    std::uint64_t bytes = 0;
    std::error_code failed;
    for (auto at = fs::recursive_directory_iterator(folder, failed);
         !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
        struct stat status {};
        if (::lstat(at->path().c_str(), &status) == 0)
            bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
}

nlohmann::json facts_of(const Image& image) {
    return {{"rank", image.rank},
            {"position", image.spot.position},
            {"within", image.spot.within},
            {"event", image.event},
            {"at", image.at},
            {"written", image.written},
            {"name", image.name}};
}

// Nothing: it isn't whole.
std::optional<Image> image_in(const std::string& folder) {
    const auto facts = nlohmann::json::parse(text_of_file(folder + "/facts"), nullptr, false);
    if (!facts.is_object() || ::access((folder + "/latest").c_str(), F_OK) != 0) return std::nullopt;
    Image image;
    try {
        image.rank = facts.at("rank").get<int>();
        image.spot = {facts.at("position").get<std::uint64_t>(), facts.at("within").get<bool>()};
        image.event = facts.at("event").get<std::uint64_t>();
        image.at = facts.at("at").get<double>();
        image.written = facts.at("written").get<std::array<std::uint64_t, 2>>();
        image.name = facts.at("name").get<std::array<std::uint64_t, 2>>();
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
    image.bytes = bytes_below(folder);
    image.folder = folder;
    return image;
}

Result<> write_durably(const std::string& path, const std::string& text) {
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(file.get()) != 0)
        return fail_errno("writing {}", path);
    return {};
}

// One that is removed in part must not look whole.
void discard(const std::string& folder) {
    std::error_code failed;
    const std::string aside = fmt::format("{}/.old.{}", folder.substr(0, folder.rfind('/')), ::getpid());
    fs::remove_all(aside, failed);
    fs::rename(folder, aside, failed);
    fs::remove_all(failed ? folder : aside, failed);
}

bool is_before(const Image& one, const Image& other) {
    return std::tie(one.rank, one.spot) < std::tie(other.rank, other.spot);
}

}  // namespace

ImageStore::ImageStore(std::string folder, const std::string& mark, bool making, std::string& notes,
                       std::vector<Spot> beginnings)
    : folder_(std::move(folder)),
      new_(fmt::format("{}/{}{}", folder_, unfinished, ::getpid())),
      beginnings_(std::move(beginnings)) {
    std::error_code failed;
    if (making) {
        fs::create_directories(folder_, failed);
        ::chmod(folder_.c_str(), 0700);  // what is in a program's memory is its user's
        lock_.reset(::open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        if (!lock_) {
            notes += fmt::format("no images are made: opening {}/lock: {}\n", folder_, std::strerror(errno));
        } else if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
            notes += fmt::format("no images are made: another debugger makes them in {}\n", folder_);
            lock_.reset();
        }
    }
    const std::string of = text_of_file(folder_ + "/of");
    if (of == mark) {
        read();
        return;
    }
    std::size_t others = 0;
    for (const auto& each : fs::directory_iterator(folder_, failed)) others += each.is_directory() ? 1U : 0U;
    if (!lock_) {
        if (others > 0)
            notes += fmt::format(
                "the images in {} are of another record, program, arguments or cairn: they aren't used\n",
                folder_);
        return;
    }
    for (const auto& each : fs::directory_iterator(folder_, failed))
        if (each.is_directory()) fs::remove_all(each.path(), failed);
    if (others > 0)
        notes += fmt::format(
            "the images in {} were of another record, program, arguments or cairn: they are removed\n",
            folder_);
    if (const auto written = write_durably(folder_ + "/of", mark); !written) {
        notes += fmt::format("no images are made: {}\n", written.error().what);
        lock_.reset();
    }
}

void ImageStore::read() {
    std::error_code failed;
    for (const auto& each : fs::directory_iterator(folder_, failed)) {
        if (!each.is_directory()) continue;
        const std::string name = each.path().filename().string();
        if (auto image = name.starts_with(".") ? std::nullopt : image_in(each.path().string()))
            images_.push_back(std::move(*image));
        else if (lock_)  // of a debugger that was killed while it made it
            fs::remove_all(each.path(), failed);
    }
    std::sort(images_.begin(), images_.end(), is_before);
    keep_those_of_beginnings();
}

// And what goes back to one of them. Of a record that begins later no others: they have the record as it was
// when they were made, and not alike.
void ImageStore::keep_those_of_beginnings() {
    std::set<int> begun;
    for (const Image& each : images_)
        if (each.spot == beginning(each.rank)) begun.insert(each.rank);
    std::erase_if(images_, [&](const Image& each) {
        const bool alike = beginnings_.empty() || each.spot == beginning(each.rank);
        if (begun.contains(each.rank) && alike) return false;
        if (lock_) discard(each.folder);
        return true;
    });
}

void ImageStore::begin_at(std::vector<Spot> beginnings) {
    beginnings_ = std::move(beginnings);
    keep_those_of_beginnings();
}

bool ImageStore::has_beginning(int rank) const {
    return std::any_of(images_.begin(), images_.end(),
                       [&](const Image& each) { return each.rank == rank && each.spot == beginning(rank); });
}

Spot ImageStore::beginning(int rank) const {
    return beginnings_.empty() ? Spot{} : beginnings_[static_cast<std::size_t>(rank)];
}

const Image* ImageStore::last(int rank, const Spot& spot) const {
    const Image* found = nullptr;
    for (const Image& each : images_)
        if (each.rank == rank && each.spot <= spot) found = &each;
    return has_beginning(rank) ? found : nullptr;
}

std::uint64_t ImageStore::bytes() const {
    std::uint64_t bytes = 0;
    for (const Image& each : images_) bytes += each.bytes;
    return bytes;
}

Result<std::string> ImageStore::begin() {
    std::error_code failed;
    fs::remove_all(new_, failed);
    if (!fs::create_directory(new_, failed)) return fail("making {}: {}", new_, failed.message());
    return new_;
}

double ImageStore::made_at() const {
    struct stat status {};
    if (::lstat((new_ + "/latest").c_str(), &status) != 0) return 0;
    return static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
}

Result<bool> ImageStore::add(Image image, std::uint64_t most) {
    image.folder = fmt::format("{}/{}-{}{}", folder_, image.rank, image.spot.position,
                               image.spot.within ? "-within" : "");
    CHECK_OK(write_durably(new_ + "/facts", facts_of(image).dump() + "\n"));
    image.bytes = bytes_below(new_);
    if (::access(image.folder.c_str(), F_OK) == 0) discard(image.folder);
    if (::rename(new_.c_str(), image.folder.c_str()) != 0) return fail_errno("naming {}", image.folder);
    const std::string folder = image.folder;
    images_.insert(std::upper_bound(images_.begin(), images_.end(), image, is_before), std::move(image));
    thin_out(most);
    if (bytes() > most) {
        const std::string all = human_bytes(bytes());
        forget(*std::find_if(images_.begin(), images_.end(),
                             [&](const Image& each) { return each.folder == folder; }));
        return fail("the beginnings of the ranks alone take {} of disk, more than --images allows", all);
    }
    return std::any_of(images_.begin(), images_.end(),
                       [&](const Image& each) { return each.folder == folder; });
}

void ImageStore::thin_out(std::uint64_t most) {
    while (bytes() > most) {
        std::size_t worst = 0;
        double least = 0;
        // Beginnings stay: what is kept of their ranks is of use with them only.
        for (std::size_t i = 1; i < images_.size(); ++i) {
            if (images_[i].spot == beginning(images_[i].rank)) continue;
            const bool followed = i + 1 < images_.size() && images_[i + 1].rank == images_[i].rank;
            const double gap = images_[followed ? i + 1 : i].at - images_[i - 1].at;
            if (worst != 0 && gap >= least) continue;
            worst = i;
            least = gap;
        }
        if (worst == 0) return;
        forget(images_[worst]);
    }
}

void ImageStore::forget(const Image& image) {
    const int rank = image.rank;
    const bool all = image.spot == beginning(rank);
    const std::string folder = image.folder;
    std::erase_if(images_, [&](const Image& each) {
        if (each.rank != rank || (!all && each.folder != folder)) return false;
        // Another one who makes them may still have use for it.
        if (lock_ && beginnings_.empty()) discard(each.folder);
        return true;
    });
}

}  // namespace cairn::mpi::debug
