/// The checks: each a function of what it is shown. One that cannot read its source says `unknown`.
#pragma once

#include "harness/doctor/finding.h"

namespace stbench::harness::doctor {

// Processors and their other users (cpu_checks.cpp).
Finding check_governor(const Sources& sources);
Finding check_turbo(const Sources& sources);
Finding check_load(const Sources& sources);
Finding check_cpu_quota(const Sources& sources);
Finding check_cpuset(const Sources& sources);
Finding check_virtual_machine(const Sources& sources);
Finding check_steal(const Sources& sources);
Finding check_clock_source(const Sources& sources);
Finding check_mitigations(const Sources& sources);
Finding check_build(const Sources& sources);

// Memory (memory_checks.cpp).
Finding check_huge_pages(const Sources& sources);
Finding check_huge_page_defrag(const Sources& sources);
Finding check_shared_huge_pages(const Sources& sources);
Finding check_memlock(const Sources& sources);
Finding check_numa_nodes(const Sources& sources);
Finding check_numa_balancing(const Sources& sources);
Finding check_free_memory(const Sources& sources);
Finding check_dirty_pages(const Sources& sources);
Finding check_swap(const Sources& sources);
Finding check_memory_limit(const Sources& sources);

// GPUs (gpu_checks.cpp); without a driver all but the first two are `unknown`.
Finding check_driver(const Sources& sources);
Finding check_iommu(const Sources& sources);
Finding check_link(const Sources& sources);
Finding check_gpu_clocks(const Sources& sources);
Finding check_gpu_load(const Sources& sources);
Finding check_mig(const Sources& sources);
Finding check_ecc(const Sources& sources);
Finding check_persistence(const Sources& sources);
Finding check_confidential_computing(const Sources& sources);

}  // namespace stbench::harness::doctor
