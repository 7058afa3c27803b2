# Each skips itself where the module is not built.
PYTHON_SCRIPT_TESTS = \
	tests/python/py_adapters.py \
	tests/python/py_archive.py \
	tests/python/py_array_api.py \
	tests/python/py_array_cases.py \
	tests/python/py_arrow.py \
	tests/python/py_arrow_c.py \
	tests/python/py_arrays.py \
	tests/python/py_channel.py \
	tests/python/py_channel_fork.py \
	tests/python/py_channel_pool.py \
	tests/python/py_channel_put.py \
	tests/python/py_copies.py \
	tests/python/py_data.py \
	tests/python/py_data_loader.py \
	tests/python/py_data_records.py \
	tests/python/py_data_torch.py \
	tests/python/py_device.py \
	tests/python/py_dims.py \
	tests/python/py_examples.py \
	tests/python/py_follow.py \
	tests/python/py_gather.py \
	tests/python/py_group.py \
	tests/python/py_install.py \
	tests/python/py_load_progress.py \
	tests/python/py_loader.py \
	tests/python/py_loader_again.py \
	tests/python/py_loader_batches.py \
	tests/python/py_loader_copies.py \
	tests/python/py_loader_faults.py \
	tests/python/py_loader_state.py \
	tests/python/py_nn.py \
	tests/python/py_nodes.py \
	tests/python/py_numpy_dtypes.py \
	tests/python/py_ops.py \
	tests/python/py_ops_corners.py \
	tests/python/py_pack.py \
	tests/python/py_pack_hostile.py \
	tests/python/py_parts.py \
	tests/python/py_plan.py \
	tests/python/py_pretrain.py \
	tests/python/py_readme.py \
	tests/python/py_refit.py \
	tests/python/py_routes.py \
	tests/python/py_safe_open.py \
	tests/python/py_safetensors.py \
	tests/python/py_select.py \
	tests/python/py_snapshot.py \
	tests/python/py_store.py \
	tests/python/py_stubs.py \
	tests/python/py_tensor.py \
	tests/python/py_torch.py \
	tests/python/py_torch_device.py \
	tests/python/py_views.py \
	$(NULL)
dist_check_SCRIPTS += $(PYTHON_SCRIPT_TESTS) tests/python/wheel.py
TESTS += $(PYTHON_SCRIPT_TESTS)
