// A process's memory as a checkpoint has it: in its own image, in those that it borrows pages from, in the
// objects' (shared memory), and in the files that are mapped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/inspect_load.h"
#include "common/error.h"
#include "common/fd.h"

namespace cairn::inspect {

[[nodiscard]] inline std::span<std::uint8_t> writable(std::string& text) {
    return {reinterpret_cast<std::uint8_t*>(text.data()), text.size()};
}

// Where the bytes of a stretch of memory are. What no piece has isn't known: the kernel's own pages, a mapped
// file that has changed since.
struct MemoryPiece {
    ProgramAddress at;
    std::uint64_t length = 0;
    PageReader* source = nullptr;  // null: zeros. Of the ProcessMemory that says so
    std::uint64_t offset = 0;      // there
    bool of_file = false;          // of a mapped file, which the process hasn't changed there
};

class ProcessMemory {
  public:
    // Both outlive it.
    ProcessMemory(const Checkpoint& checkpoint, const LoadedProcess& process)
        : checkpoint_(checkpoint), process_(process) {}

    // In order; the checksums of pages in images are compared. Errors: ExitCode::damaged; an image that pages
    // are borrowed from can't be read.
    [[nodiscard]] Result<std::vector<MemoryPiece>> pieces_of(const schema::Area& area);
    // Bytes at `address`, over several mappings too; fewer than `length` where the rest isn't known.
    [[nodiscard]] Result<std::string> read(ProgramAddress address, std::size_t length);
    // Mapped files that are gone or have changed since.
    [[nodiscard]] const std::vector<std::string>& unknown_files() const { return unknown_files_; }

  private:
    [[nodiscard]] Result<const ImageReader*> borrowed_from(const schema::Borrowed& part);
    [[nodiscard]] Result<std::vector<MemoryPiece>> stored_pages(const schema::Area& area);
    [[nodiscard]] Result<std::vector<MemoryPiece>> shared_pages(const schema::Area& area);
    // Null: unknown.
    [[nodiscard]] const Fd* file_of(const schema::Area& area);
    [[nodiscard]] PageReader* source_of(const PageData& data);

    const Checkpoint& checkpoint_;
    const LoadedProcess& process_;
    std::map<std::string, std::unique_ptr<ImageReader>> others_;  // by the file's name
    std::map<int, PageReader> sources_;                           // by the descriptor
    std::map<std::int64_t, Fd> files_;                            // by object; without a descriptor: unknown
    std::map<ProgramAddress, std::vector<MemoryPiece>> known_;    // by start of the area
    std::vector<std::string> unknown_files_;
};

}  // namespace cairn::inspect
