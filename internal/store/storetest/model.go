package storetest

var model = group{"model", nil}
