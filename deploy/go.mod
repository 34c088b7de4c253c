module spectap/deploy

go 1.26.0
